"""Real parts for the acceptance tests: Docker hosts and images, each in a folder and network of its own."""
