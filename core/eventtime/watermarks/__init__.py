"""How far event time is complete: kinds of watermarks, clocks of sources, and what holds them back."""
