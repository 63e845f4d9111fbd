"""``pai-fs``: files between this machine and the store, from the command line (v1 contract, 5.13).

Speaks WebHDFS, with the portal or straight with a NameNode. Knows nothing of Django: it starts at once.
"""
