"""What Longshore remembers, as pages and API: usage, timeline and forecasts."""
