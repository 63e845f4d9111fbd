"""When waiting jobs will start: worked out by a worker, read by pages, and scored."""
