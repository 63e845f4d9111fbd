"""What the pages show: reads of the database turned into small frozen values, in a constant number of queries.

listing, home, detail: one per page. rows, cause: what they share. Nothing here changes anything.
"""
