"""``pai-fs`` copies files between this machine and the store, from the command line (v1 contract, 5.13).

It speaks WebHDFS, with the portal or directly with a NameNode. It imports nothing of Django, so that it starts at once.
"""
