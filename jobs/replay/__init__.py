"""Past days played again: read from the history, played by a worker, kept as a row for page and API."""
