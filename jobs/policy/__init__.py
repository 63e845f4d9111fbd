"""What would another decision do: what-if as page and API, for admins."""
