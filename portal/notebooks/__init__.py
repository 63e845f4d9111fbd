"""Notebooks: opened with one click, found again, given back."""
