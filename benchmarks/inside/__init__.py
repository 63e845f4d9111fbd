"""What people do inside a job: logs, web pages, terminals, metrics. Each part is a module with a function ``measure``,
named in the table of measure.py."""
