"""What people use of jobs that run: their logs, terminals, web pages and metrics."""
