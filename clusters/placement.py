"""Which task goes where: pure functions over what is owned and what is free. Written out by the main author."""

from __future__ import annotations
