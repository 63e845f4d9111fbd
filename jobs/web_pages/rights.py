"""Who may open a web page of a task: the owner of its job, admins, and those with whom the owner shares it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from base.accounts import audit
from base.accounts.viewer import Viewer
from base.core.errors import BadRequest, Forbidden, Unauthorized
from base.models import User
from clusters.models import VirtualCluster
from clusters.vcs.grants import grants_of
from clusters.vcs.rules import DEFAULT_VC
from jobs.access import is_insider
from jobs.config.web_pages import WebPage
from jobs.models import Job
from jobs.web_pages.addresses import PagePlace
from jobs.web_pages.models import PageShare, PageVisit

Key = tuple[int, str, int, str]  # of a page: id of the job, role, index, label
MOST_SHARES = 200  # of one page


def key_of(job_id: int, page: WebPage | PageShare | PageVisit) -> Key:
    return (job_id, page.role, page.index, page.label)


def openers(keys: Collection[Key]) -> dict[Key, list[PageShare]]:
    """The shares of these pages that have not ended, oldest first."""
    shares: dict[Key, list[PageShare]] = {key: [] for key in keys}
    for row in in_force(PageShare.objects.filter(job__in={key[0] for key in keys})).order_by("id"):
        shares.get(key_of(row.job_id, row), []).append(row)
    return shares


def in_force(shares: QuerySet[PageShare]) -> QuerySet[PageShare]:
    """Those that have not ended."""
    return shares.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))


def may_open(viewer: Viewer, owner: str, shares: Iterable[PageShare], vcs: Mapping[str, Collection[str]]) -> bool:
    """``vcs``: what was granted to users, the viewer among them. Everybody may use the default one, so it is shared
    with nobody in particular."""
    if is_insider(viewer, owner):
        return True
    if not viewer.is_authenticated:
        return False
    names: dict[str, Collection[str]] = {"user": {viewer.username}, "vc": vcs.get(viewer.username, ())}
    return any(share.name in names.get(share.kind, ()) for share in shares)


def may_open_there(viewer: Viewer, owner: str, place: PagePlace) -> bool:
    """On a host name that all pages and the portal share, a page of somebody else could put its own cookies before
    those of the portal, and read the visitor's other pages. So only one's own open there, unless an admin has set
    LONGSHORE_APPS_ON_ONE_HOST."""
    return place.is_alone or settings.APPS_ON_ONE_HOST == "all" or viewer.username == owner


def require_open(viewer: Viewer, job: Job, page: WebPage, place: PagePlace) -> None:
    """Raises Unauthorized, or Forbidden with what to do."""
    if not viewer.is_authenticated:
        raise Unauthorized
    key = key_of(job.pk, page)
    if not may_open(viewer, job.username, openers([key])[key], grants_of([viewer.username])):
        raise Forbidden(
            f"{page.title} of {page.role}-{page.index} is for {job.username} and for those with whom they share it. "
            f"Ask {job.username}."
        )
    if not may_open_there(viewer, job.username, place):
        raise Forbidden(
            "Here all web pages have one host name, where a page of another user could act on yours. An admin can give "
            "each page a host name of its own: LONGSHORE_APPS_DOMAIN."
        )


def links_are_on() -> bool:
    """Whether owners may make links (LONGSHORE_APPS_LINKS)."""
    return settings.APPS_LINKS == "on"


def share(actor: User, job: Job, page: WebPage, kind: str, name: str, until: datetime | None = None) -> PageShare:
    """Let a user, or the people of a virtual cluster, open the page, until then or until it is taken back. Raises
    Forbidden, BadRequest."""
    require_owner(actor, job)
    if kind == PageShare.Kind.USER:
        _check_user(job, name)
    elif kind == PageShare.Kind.VC:
        _check_vc(page, name)
    else:
        raise BadRequest('"kind" must be "user" or "vc".')
    return add(actor, job, page, kind, name, until)


def add(actor: User, job: Job, page: WebPage, kind: str, name: str, until: datetime | None) -> PageShare:
    """Write the share down, or its new end. Who may is asked before. Raises BadRequest."""
    with transaction.atomic():
        of_page = columns_of(job, page)
        rows = PageShare.objects.filter(**of_page)
        rows.filter(expires_at__lte=timezone.now()).delete()
        if rows.count() >= MOST_SHARES:
            raise BadRequest(f"A page is shared with {MOST_SHARES} at most. Share it with a virtual cluster.")
        row, _ = PageShare.objects.update_or_create(**of_page, kind=kind, name=name, defaults={"expires_at": until})
        _record(actor, "web page shared", job, page, row.kind, row.name)
    return row


def unshare(actor: User, job: Job, page: WebPage, kind: str, name: str) -> None:
    """Whoever has it open is cut off within seconds. Succeeds also when it was not shared. Raises Forbidden."""
    require_owner(actor, job)
    with transaction.atomic():
        if PageShare.objects.filter(**columns_of(job, page), kind=kind, name=name).delete()[0]:
            _record(actor, "web page share ended", job, page, kind, name)


def require_owner(actor: User, job: Job) -> None:
    """Raises Forbidden for who may not share the job's pages."""
    if not is_insider(actor, job.username):
        raise Forbidden(f"Only {job.username} and admins share the web pages of job {job.name}.")


def require_harmless(page: WebPage) -> None:
    """Raises BadRequest for a page that is nothing for many."""
    if page.is_risky:
        says = f"Whoever opens {page.title} runs commands as you. Share it with single users, by their names."
        raise BadRequest(says)


def columns_of(job: Job, page: WebPage) -> dict[str, Any]:
    return {"job": job, "role": page.role, "index": page.index, "label": page.label}


def _check_user(job: Job, name: str) -> None:
    if name == job.username:
        raise BadRequest(f"{name} owns the job and may open it anyway.")
    if "\x00" in name or not User.objects.filter(username=name, is_active=True).exists():
        raise BadRequest(f"There is no user {name!r} who could sign in.")


def _check_vc(page: WebPage, name: str) -> None:
    require_harmless(page)
    if name == DEFAULT_VC:
        raise BadRequest(
            "Everybody is in the virtual cluster default. Share it with single users, or with another one."
        )
    if "\x00" in name or not VirtualCluster.objects.filter(name=name).exists():
        raise BadRequest(f"There is no virtual cluster {name!r}.")


def _record(actor: User, what: str, job: Job, page: WebPage, kind: str, name: str) -> None:
    target = f"{job.username}/{job.name} {page.role}-{page.index} {page.label}"[:200]
    audit.record(actor.username, what, target, {"kind": kind, "name": name})
