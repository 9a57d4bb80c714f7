"""Event time: windows, watermarks, triggers, panes, as operators on deltas."""
