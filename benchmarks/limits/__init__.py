"""What one user's largest requests cost all others, and themselves."""
