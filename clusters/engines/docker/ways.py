"""What all ways to an engine share. It loads no library, as a process that only samples engines needs none."""

from __future__ import annotations

import socket

CONNECT = 5.0  # seconds
QUICK = 15.0
SSH_SESSIONS = 6  # below the 10 of a stock sshd
DIAL = "docker system dial-stdio"
KEEP_ALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
LOOPBACK = ("localhost", "127.0.0.1", "::1")
NEEDS_KEYS = "needs TLS keys: an engine without TLS gives root to the whole network."
# What an answer raises that is no engine's: of another shape, nested without end, with numbers beyond all bounds.
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
