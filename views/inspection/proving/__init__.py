"""Views are proved: their definitions evaluated by polars over all rows that are retained, and compared with what is kept."""
