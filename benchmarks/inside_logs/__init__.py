"""What logs cost: taking them in, the first screen of a long one, searching, and many who watch."""
