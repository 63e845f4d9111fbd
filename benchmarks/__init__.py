"""What ``make bench`` measures. Every figure is printed beside what it is compared with, both taken in the same run.

    python -m benchmarks                     all of it, in one run on one engine of its own
    python -m benchmarks starts passes       only these

starts (submit to RUNNING), rates (jobs and gangs per second), idle, pages, serving, passes, watch (``farm``: a thousand
small engines over HTTP), files (MB per second), code (its delivery to tasks), slow (beside slow clients). Each is a
module here; ``report`` prints, ``engine`` does the same work without the portal, ``rows`` fills databases. By
name alone: ``trace`` follows jobs through all processes by ``probes`` in them, ``policy`` plays a day of jobs,
``growth`` has a tenth and ten times of all, ``questions`` asks about 10,000 jobs, ``faults`` breaks three nodes and the
portal in every way.
"""
