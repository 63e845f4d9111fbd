"""Pages about the web pages of a job: the tab, the way in, and with whom they are shared."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from base.core.errors import LongshoreError
from base.core.words import whole
from clusters.models import VcGrant
from jobs import access, queries, versions
from jobs.models import Job
from jobs.web_pages import origin, rights, shown, tensorboard
from jobs.web_pages.models import PageShare
from portal.job.tabs import context
from portal.shared.guard import fresh_page, fresh_reading, own_post
from portal.shared.jobs.rows import job_url
from portal.shared.live.page import address
from portal.shared.viewer import user_of, viewer_of
from portal.web_pages import opening

_TIMES = ((3600, "1 hour"), (86_400, "24 hours"), (7 * 86_400, "7 days"))
_QUICK, _SLOW = 2, 30  # seconds until it is asked again whether pages answer: while one does not, and after


@fresh_reading
def web_pages_tab(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """Query: share (``role/index/label``), the page whose shares are shown."""
    job = queries.get_job(username, name)
    access.require_details(viewer_of(request), job)
    own = {"user": username, "name": name, "tab": "web", "v": versions.of_job_page(job)}
    page = context(job, viewer_of(request), "web", request.GET.dict())
    more = {"web": _listed(request, job, asks=False), "sharing": _sharing(request, job), **_ended(request, job)}
    return render(request, "job/detail.html", {"stream": address("job", **own), **page, **more})


@fresh_reading
def web_pages_part(request: HttpRequest, username: str, name: str) -> HttpResponse:
    """The table of pages, for which each of them is asked. The tab fetches it again and again."""
    job = queries.get_job(username, name)
    access.require_details(viewer_of(request), job)
    viewer = viewer_of(request)
    return render(request, "web_pages/_web_pages.html", {"web": _listed(request, job, asks=viewer.is_authenticated)})


@fresh_page
def open_page(request: HttpRequest, username: str, name: str, role: str, index: int, label: str) -> HttpResponseBase:
    """Leads to the page. This address stays the same, so it is the one to pass on."""
    job = queries.get_job(username, name)
    answer = redirect(opening.address(request, user_of(request), job, role, index, label))
    answer["Referrer-Policy"] = "no-referrer"
    return answer


@require_safe
@never_cache
def open_link(request: HttpRequest, token: str) -> HttpResponseBase:
    """Leads to the page for which this link was made. Nobody needs to be signed in."""
    answer = redirect(opening.address_by_link(request, token))
    answer["Referrer-Policy"] = "no-referrer"
    return answer


@own_post
def share_web_page(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Fields: role, index, label; kind and name; seconds, for which it is shared; ``end`` to take it back."""
    job = queries.get_job(username, name)
    fields = request.POST
    back = f"{job_url(username, name)}/web"
    page = shown.find(job, fields.get("role", ""), whole(fields.get("index"), 9) or 0, fields.get("label", ""))
    kind, whom = fields.get("kind", ""), fields.get("name", "").strip()
    try:
        if "end" in fields:
            rights.unshare(user_of(request), job, page, kind, whom)
            says = "The link opens nothing any more." if kind == PageShare.Kind.LINK else ""
            messages.success(request, says or f"{page.title} is not shared with {whom} any more.")
        elif kind == PageShare.Kind.LINK:
            opening.make_link(request, user_of(request), job, page, whole(fields.get("seconds"), 9) or 0)
            messages.success(request, f"Whoever has the link opens {page.title}, until it ends.")
        else:
            rights.share(user_of(request), job, page, kind, whom, _until(fields.get("seconds")))
            messages.success(request, f"{page.title} is shared with {whom}.")
    except LongshoreError as error:
        messages.error(request, error.message)
    return redirect(f"{back}?share={page.role}/{page.index}/{page.label}#share")


@own_post
def serve_tensorboard(request: HttpRequest, username: str, name: str) -> HttpResponseBase:
    """Fields: folder, image."""
    job = queries.get_job(username, name)
    access.require_config(viewer_of(request), job)
    fields = request.POST
    new = tensorboard.serve(user_of(request), job, fields.get("folder", ""), fields.get("image", ""))
    messages.success(request, f"{new.name} was submitted. TensorBoard opens here when it answers.")
    return redirect(f"{job_url(new.username, new.name)}/web")


def _listed(request: HttpRequest, job: Job, *, asks: bool) -> dict[str, Any]:
    viewer, url = viewer_of(request), job_url(job.username, job.name)
    rows = shown.listed(job, viewer, url, asks=asks)
    settled = all(row.state.is_ == "answers" for row in rows)
    return {
        "rows": rows,
        "is_live": job.state in queries.LIVE,
        "is_on": origin.is_on(),
        "asked": asks,
        "seconds": _SLOW if rows and settled else _QUICK,
        "url": url,
        "owner": job.username,
        "is_mine": viewer.username == job.username,
        "may_share": access.is_insider(viewer, job.username),
        "site": request.build_absolute_uri("/").rstrip("/"),
    }


def _sharing(request: HttpRequest, job: Job) -> dict[str, Any] | None:
    """The card with the shares of one page; for those who may change them."""
    asked = request.GET.get("share", "").split("/")
    if len(asked) != 3 or not access.is_insider(viewer_of(request), job.username):
        return None
    page = shown.find(job, asked[0], whole(asked[1], 9) or 0, asked[2])
    shares = rights.openers([key := rights.key_of(job.pk, page)])[key]
    url = f"{job_url(job.username, job.name)}/web/{page.role}/{page.index}/{page.label}"
    is_vc = not page.is_risky and job.vc != "default"
    people = VcGrant.objects.filter(vc__name=job.vc).count() if is_vc else 0
    with_vc = any(each.kind == PageShare.Kind.VC and each.name == job.vc for each in shares)
    by_link = [each for each in shares if each.kind == PageShare.Kind.LINK]
    return {
        "page": page,
        "shares": [each for each in shares if each.kind != PageShare.Kind.LINK],
        "links": [(each, request.build_absolute_uri(opening.path_of_link(each))) for each in by_link],
        "may_link": rights.links_are_on() and not page.is_risky,
        "times": _TIMES,
        "link": request.build_absolute_uri(url),
        "vc": job.vc if is_vc and not with_vc else "",
        "people": people,
    }


def _ended(request: HttpRequest, job: Job) -> dict[str, Any]:
    """The card that serves the output of an ended job, for those who may read it."""
    viewer = viewer_of(request)
    if job.state in queries.LIVE or not viewer.is_authenticated or not access.may_read_config(viewer, job):
        return {"serving": None}
    folder = tensorboard.folder_of(job)
    if folder and not tensorboard.rights_of_jobs(viewer).may_read(folder):
        return {"serving": None}
    return {"serving": {"folder": folder, "image": settings.TENSORBOARD_IMAGE}}


def _until(seconds: str | None) -> datetime | None:
    """The end of a share of so many seconds; None for one that lasts until it is taken back."""
    number = whole(seconds, 9)
    return timezone.now() + timedelta(seconds=number) if number else None
