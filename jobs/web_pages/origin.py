"""The origin of web pages as the settings have it: whether there is one, and where a page opens for a visitor."""

from __future__ import annotations

from django.conf import settings

from base.core.errors import NotFound
from jobs.config import web_pages
from jobs.config.web_pages import WebPage
from jobs.models import Job
from jobs.web_pages.addresses import PagePlace, Setup, place_for


def is_on() -> bool:
    return settings.APPS_BIND is not None


def setup() -> Setup:
    _, port = settings.APPS_BIND or ("", 0)
    return Setup(port, settings.APPS_DOMAIN, settings.APPS_URL, settings.PUBLIC_URL)


def key_of(job_id: int, role: str, index: int, label: str) -> str:
    return web_pages.key(settings.INSTANCE, job_id, role, index, label)


def place(job: Job, page: WebPage, host: str, scheme: str) -> PagePlace:
    """Where the page opens for who visits the portal at this Host. Raises NotFound where web pages are switched off."""
    if not is_on():
        raise NotFound("Web pages of tasks are switched off here (LONGSHORE_APPS_BIND).")
    return place_for(setup(), key_of(job.pk, page.role, page.index, page.label), host, scheme)
