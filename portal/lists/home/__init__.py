"""The home page, and what its box suggests on every page."""
