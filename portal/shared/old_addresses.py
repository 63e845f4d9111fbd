"""Addresses of the older portal's pages (v1 contract, 8.1): each leads to the page that does the same here."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, re_path
from django.views.decorators.http import require_safe

from portal.shared import error_pages
from portal.shared.confirm import leads_here

_LIST_WORDS = {"vcName": "vc", "status": "state", "user": "username", "keyword": "keyword"}


@require_safe
def old_page(request: HttpRequest, page: str) -> HttpResponse:
    """A temporary redirect: the successor of a page may change, and browsers never forget a permanent one."""
    target = _PAGES.get(page)
    if target is None:
        return error_pages.not_found(request)
    return redirect(target if isinstance(target, str) else target(request))


def _jobs(request: HttpRequest) -> str:
    filters = ((new, request.GET.get(old, "")) for old, new in _LIST_WORDS.items())
    return _address("/jobs", {name: value for name, value in filters if value})


def _job(request: HttpRequest) -> str:
    """Return the page of a job. Without a user in the address the job is looked for by its name."""
    username, name = request.GET.get("username", ""), request.GET.get("jobName", "")
    if not name:
        return "/jobs"
    return f"/jobs/{quote(username, '')}/{quote(name, '')}" if username else _address("/jump", {"q": name})


def _submit(request: HttpRequest) -> str:
    name = request.GET.get("jobname", "")
    username = request.GET.get("user", "") or request.user.get_username()
    if request.GET.get("op") != "resubmit" or not name or not username:
        return "/submit"
    return _address("/submit", {"from": f"{username}/{name}"})


def _vcs(request: HttpRequest) -> str:
    name = request.GET.get("vcName", "")
    return f"/vcs/{quote(name, '')}" if name else "/vcs"


def _login(request: HttpRequest) -> str:
    """``origin`` is where people go once they are signed in; only a page of ours will do."""
    origin = request.GET.get("origin", "")
    return _address("/login", {"next": origin} if leads_here(request, origin) else {})


def _address(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


_PAGES: dict[str, str | Callable[[HttpRequest], str]] = {
    **dict.fromkeys(("index", "home", "dashboard", "download"), "/"),
    **dict.fromkeys(("submit", "submit_v1", "submit-v2", "plugin"), _submit),
    **dict.fromkeys(("template", "template-list", "template-view", "marketplace"), "/submit"),
    **dict.fromkeys(("user-view", "register", "batch-register"), "/users"),
    **dict.fromkeys(("change-password", "change-github-pat", "how-to-config-github-pat"), "/account"),
    **dict.fromkeys(("cluster", "cluster-view/services", "cluster-view/hardware"), "/nodes"),
    **dict.fromkeys(("cluster-view/hardware/detail", "cluster-view/k8s"), "/nodes"),
    **dict.fromkeys(("webhdfs/explorer", "explorer"), "/files"),  # its #/path goes along: js/files/old_address.js
    "docs": "/api/docs",
    "job-detail": _job,
    "job-list": _jobs,
    "login": _login,
    "view": lambda request: _job(request) if request.GET.get("jobName") else _jobs(request),
    "virtual-clusters": _vcs,
}
urlpatterns: list[URLPattern] = [re_path(r"^(?P<page>[a-z0-9_/-]+)\.html$", old_page)]
