"""Shells in the browser: in the container of a running task, over a WebSocket (docs/terminal.md).

place (who may enter what), records (rows and audit), program (what is started), replay (P), shell (one shell), shells
(those of this process), relay (to another web process), sockets (the WebSocket).
"""
