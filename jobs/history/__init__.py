"""What was used, by whom and when: written beside the allocations, and read for usage, timeline and forecast."""
