"""What tasks, nodes and the cluster used, as pages, in the API and for Prometheus."""
