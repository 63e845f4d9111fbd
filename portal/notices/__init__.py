"""Notices on pages and in the API: what a user was told, their channels and rules, and what became of each delivery."""
