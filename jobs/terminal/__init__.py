"""Shells in the containers of running tasks (docs/use/terminal.md); portal/terminal brings them into the browser.

place (who may enter what), records (rows and audit), replay (P), shell (one shell), shells (those of this process),
relay (to another web process).
"""
