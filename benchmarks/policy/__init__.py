"""``make bench ARGS=policy``: a day of many small jobs and few large gangs on 1,000 nodes, under Longshore's turns and
under three others that everybody knows. Everything is simulated; only the decisions are real.

``workload`` makes the jobs, ``cluster`` plays the day, ``baselines`` and ``ours`` decide, ``outcome`` sums up,
``measure`` prints.
"""
