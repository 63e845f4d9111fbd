"""The metrics of several hosts: what one samples, all show."""
