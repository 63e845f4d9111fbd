"""WebHDFS, served by the portal over whatever store it has, so that tools made for HDFS work with both.

The protocol is that of Hadoop 2.7 (its WebHDFS REST API page). ``messages`` and ``shapes`` are pure, ``call`` finds the
caller, ``operations`` does what is asked, ``app`` moves the bytes.
"""
