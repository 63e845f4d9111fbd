"""WebHDFS, spoken by the portal itself over whatever store it has, so that tools made for HDFS work on both.

The protocol is that of Hadoop 2.7 (its WebHDFS REST API page). ``messages`` and ``shapes`` are pure, ``who`` tells who
asks, ``operations`` does it, ``app`` carries bytes in and out.
"""
