"""What Longshore remembers, as pages and API: usage and timeline."""
