"""A job's page while it is open (portal.shared.live.page)."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from base.accounts.viewer import Viewer, require_reader
from base.core.errors import NoJob
from jobs import access, queries, versions
from jobs.models import Job
from portal.job.tabs import context
from portal.shared.live.page import LivePage


class LiveJob(LivePage):
    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self._tab = self.asked.get("tab", "")
        self._job = self._found()

    def require(self, viewer: Viewer) -> None:
        require_reader(viewer)
        if self._tab != "tasks":
            access.require_details(viewer, self._job)

    def version(self) -> str:
        try:
            return versions.of_job_page(self._found())
        except NoJob:
            return "gone"

    def parts(self) -> dict[str, str]:
        try:
            page, templates = self._shown(self._found())
        except NoJob:
            return {"job-top": self.drawn("job/_gone.html", {"name": self._job.name})}
        return {part: self.drawn(template, page) for part, template in templates.items()}

    def _found(self) -> Job:
        return queries.get_job(self.asked.get("user", ""), self.asked.get("name", ""))

    def _shown(self, job: Job) -> tuple[dict[str, Any], dict[str, str]]:
        """The context of the page, and the template of each part by the id of its element."""
        page = context(job, self.viewer, self._tab, self.request.GET.dict())
        templates = {"job-head": "job/_head.html", "job-top": "job/_top.html", "job-tabs": "job/_tabs.html"}
        if self._tab in ("tasks", "events", "attempts"):
            templates["job-tab"] = str(page["tab_template"])
        return page, templates
