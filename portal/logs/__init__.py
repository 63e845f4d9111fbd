"""Shows logs: their lines on a page, and what stands beside them."""
