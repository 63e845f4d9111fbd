"""Files in each kind of store, beside the same bytes without Longshore."""
