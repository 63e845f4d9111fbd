"""The pages of docs/ as pages of the portal."""
