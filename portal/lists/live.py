"""The home page and the job list while they are open (portal.shared.live.page)."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string

from base.core import words
from jobs import versions
from portal.lists.home.page import CLUSTER, home_context, home_version
from portal.lists.listing import ListQuery, facets, newer_than, page_of, rows_by_id
from portal.shared.live.page import LivePage


class LiveHome(LivePage):
    def version(self) -> str:
        return home_version(self.asked.get("as", ""))

    def parts(self) -> dict[str, str]:
        page = home_context(self.viewer, as_cluster=self.asked.get("as", "") == CLUSTER)
        first = "lists/_home_needs.html" if page["as_cluster"] else "lists/_home_jobs.html"
        return {"home-jobs": self.drawn(first, page), "home-cluster": self.drawn("lists/_home_cluster.html", page)}


class LiveJobList(LivePage):
    """The job list. Its lines stay where they are; how many newer jobs there are is said above them."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self._query = ListQuery(self.request.GET.dict())
        rows, newer, _ = page_of(self._query, self.viewer)
        self._top = words.whole(self.asked.get("top")) or 0
        self._ids = [row.id for row in rows if row.id <= self._top]
        self._is_first = self._query.sort == "newest" and not (newer or self._query.before or self._query.after)
        self._changed = len(self._ids) != (words.whole(self.asked.get("shown")) or 0)

    def version(self) -> str:
        return versions.of_pages()

    def parts(self) -> dict[str, str]:
        page: dict[str, Any] = {"facets": facets(self._query), "news": self._news(), "news_url": self._query.address()}
        drawn = {
            "jobs-facets": self.drawn("lists/_facets.html", page),
            "jobs-news": self.drawn("lists/_news.html", page),
        }
        for row in rows_by_id(self._ids, self._query.which, self.viewer):
            drawn[row.part] = render_to_string(
                "lists/_row.html", {"row": row, "selectable": bool(self.asked.get("sel"))}
            )
        return drawn

    def _news(self) -> str:
        new = newer_than(self._query, self._top) if self._is_first else 0
        if new:
            return f"{words.count(new, 'new job')}{'' if new < 100 else ' or more'}."
        return "The list has changed." if self._changed else ""
