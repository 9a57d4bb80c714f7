"""The engine: sources, views, and the epochs that keep the views current."""
