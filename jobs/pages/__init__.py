"""What the pages about jobs show: rows of the database as small frozen values, in a constant number of queries.

listing, home, detail and log are pages; rows, cause and the others are their parts. Nothing here changes a row.
"""
