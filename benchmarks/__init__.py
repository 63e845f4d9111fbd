"""What ``make bench`` measures. Every figure is printed beside what it is compared with, both taken in the same run.

    python -m benchmarks                     the usual ones, in one run on one engine of its own
    python -m benchmarks starts passes       only these
    BENCH_TINY=1 python -m benchmarks        as small as can be, to see whether all of it runs

``__main__`` has the names. A folder has the measurements of one subject, each a module:

    jobs          how soon a job starts, how many a second; on Docker and on Kubernetes, and its code's way to its tasks
    scheduler     passes, a thousand watched engines, questions about 10,000 jobs
    portal        pages and API, with slow clients and with several processes, and the portal at rest
    files         MB per second to and from HDFS, a folder and a bucket
    running_jobs  logs, terminals, web pages and metrics of jobs that run
    policy        a day of jobs, beside other policies
    packing       how full placement makes a real cluster, beside other rules
    faults        what breaks on three nodes, and how long it takes to heal
    trace         where the time of a job goes

``report`` prints; ``data`` fills databases and stores; ``sizes`` says how much is measured, ``processes`` starts those
that use Django's models.
"""
