"""Shows the audit: who did what, on what, from where and when. Admins see all of it, everybody else what they did
themselves. base/accounts/audit writes the rows; words (P), queries (filters, pages, export), api, views."""
