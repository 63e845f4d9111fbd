"""Finds out whether a page knows its prefix, where pages share a host name and each has a path of its own.

Most programs are told nothing and have their pages at ``/``: the portal takes the prefix off. Those that name their own
addresses (Jupyter, or TensorBoard with --path_prefix) are started with the prefix, which stands in the environment as
LONGSHORE_WEB_PATH_<label>, and are asked with it. Which of them it is, they show: what is at ``/`` leads below the
prefix, or is missing while the prefix is there.
"""

from __future__ import annotations

import aiohttp

from jobs.config.web_pages import PREFIX
from jobs.web_apps.serving.answers import FAULTS, Unanswered
from jobs.web_apps.serving.hop import Hop
from jobs.web_apps.visits import Target

_MOST_KNOWN = 10_000


class Prefixes:
    def __init__(self, hop: Hop) -> None:
        self._hop = hop
        self._known: dict[tuple[int, int], bool] = {}

    async def keeps(self, target: Target, key: str) -> bool:
        """Raises Unanswered while nothing answers."""
        known = self._known.get((target.task_id, target.port))
        if known is None:
            known = await self._ask(target, f"{PREFIX}{key}/")
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known[target.task_id, target.port] = known
        return known

    async def _ask(self, target: Target, below: str) -> bool:
        async with await self._get(target, "/") as answer:
            if answer.status in range(300, 400):
                return answer.headers.get("Location", "").startswith(below.rstrip("/"))
            if answer.status != 404:
                return False
        async with await self._get(target, below) as answer:
            return answer.status != 404

    async def _get(self, target: Target, path: str) -> aiohttp.ClientResponse:
        host = f"{target.address}:{target.port}".encode("latin-1", "replace")
        try:
            return await self._hop.ask(target, "GET", path, [(b"host", host), (b"accept", b"text/html,*/*")], None)
        except FAULTS as error:
            raise Unanswered(error) from error
