"""What workers do: they start, stop and collect containers, and bring files to and from the store for them."""
