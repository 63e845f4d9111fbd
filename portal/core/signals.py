"""Signals by which other apps take part without portal knowing them.

``first_start``: sent at every ``manage.py up``; receivers do what is missing and may be called again. Argument
``say(sentence)`` tells the person at the terminal. A receiver that raises is reported and stops nothing.
"""

from __future__ import annotations

from django.dispatch import Signal

first_start = Signal()

# Sent with ``usernames`` (a tuple) when users are listed or one is deleted: each receiver returns how many live pieces
# of work each of them has, {name: count}; names with none may be left out.
work_of = Signal()

# Sent with ``node`` (its name), ``kind`` (node.marked, node.unmarked) and ``reason`` (a sentence) when a node was seen
# to refuse something, or to do it again: for the ledger of jobs.
node_learnt = Signal()
