"""Measures what tasks and nodes use: a sampler process writes ring files, pages and the API read them."""
