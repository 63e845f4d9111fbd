"""``make bench ARGS=policy``: a day of many small jobs and few large gangs on 1,000 nodes, under Longshore's turns and
under three others that everybody knows. Everything is simulated; only the decisions are real.

``workload`` makes the jobs, the product's own replay (jobs/replay) plays them, ``measure`` prints.
"""
