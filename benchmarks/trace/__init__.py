"""``make bench ARGS=trace``: where the time of a job goes, step by step, by probes in all processes of the portal."""
