"""What would another decision do, or have done: what-if and replay as pages and API, for admins."""
