"""Visits: a ticket from the portal opens one page once, and the browser gets a cookie for that page alone.

The portal gives tickets (``begin``), the pages' origin takes them (``redeem``) and then asks again and again whether
what a visitor has open may stay open (``check``): not after they logged out, were disabled, got a new password, or when
the page is shared with them no more.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from socket import socket

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from base.accounts import audit
from base.models import ApiToken, User
from clusters.engines import schemes
from clusters.models import Node
from clusters.vcs.grants import grants_of
from jobs.config.web_pages import WebPage
from jobs.models import Job, Task
from jobs.planning.lifecycle import JobState, TaskState
from jobs.web_pages import origin, rights
from jobs.web_pages.models import PageShare, PageVisit

TICKET_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Target:
    """The one port of the one container that a visit leads to, as placed by the scheduler."""

    task_id: int
    endpoint: str  # of the node's engine
    tls_dir: str
    address: str  # of the node
    port: int
    is_tls: bool
    container: str = ""

    def dial(self) -> socket:
        """Open a connection to it. Raises RuntimeFault."""
        engine = schemes.connect(self.endpoint, self.tls_dir or None)
        return engine.dial(self.address, self.port, self.container)


def any_certificate() -> ssl.SSLContext:
    """A container makes its certificate itself. It is reached by where it was placed, not by what it calls itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True, slots=True)
class Visit:
    """One that may go on. ``target`` is None while there is no container to lead to; ``says`` is why."""

    id: int
    key: str  # of the page, see web_pages.key
    viewer: str
    owner: str
    job: str
    title: str
    target: Target | None
    says: str = ""


def begin(
    user: User | None, job: Job, page: WebPage, *, session: str = "", token: int | None = None, link: int | None = None
) -> str:
    """Return a ticket. Who may open the page is asked before (portal.web_pages.opening). The portal knows the user by a
    session or by a token; ``user`` is None for who came by a ``link``, the row of that share."""
    now = timezone.now()
    PageVisit.objects.filter(expires_at__lt=now).delete()
    ticket = secrets.token_urlsafe(32)
    PageVisit.objects.create(
        **rights.columns_of(job, page),
        user=user,
        session=session,
        token=token,
        link=link,
        ticket=_hash(ticket),
        expires_at=now + timedelta(seconds=TICKET_SECONDS),
    )
    if user is None or user.username != job.username:
        target = f"{job.username}/{job.name} {page.role}-{page.index} {page.label}"[:200]
        audit.record(user.username if user else "", f"web page opened{'' if user else ' by link'}", target)
    return ticket


def redeem(ticket: str, key: str, session: str | None) -> str | None:
    """The cookie for the page with this key; None for a ticket of another page, and for one that was used, is too old
    or has lost its right. ``session``: where the browser must also be signed in as that user, its session cookie."""
    row = PageVisit.objects.filter(ticket=_hash(ticket), cookie=None).select_related("user").first()
    if row is None or _key(row) != key:
        return None
    if session is not None and (row.user is None or row.user.pk not in _in_sessions([session], [row.user]).values()):
        return None
    cookie = secrets.token_urlsafe(32)
    now = timezone.now()
    fresh = PageVisit.objects.filter(pk=row.pk, cookie=None, expires_at__gt=now)
    until = now + timedelta(seconds=settings.APPS_VISIT)
    return cookie if fresh.update(cookie=_hash(cookie), expires_at=until) == 1 else None


def check(cookies: Collection[str]) -> dict[str, Visit]:
    """The visits of these cookies that may go on. The number of queries does not grow with that of the cookies."""
    hashes = {_hash(cookie): cookie for cookie in cookies}
    rows = PageVisit.objects.filter(cookie__in=list(hashes), expires_at__gt=timezone.now())
    rows = rows.select_related("user", "job").defer("job__config", "job__spec", "user__extension")
    alive = [row for row in rows if (row.user is None or row.user.is_active) and row.job.deleted_at is None]
    known = [*_still_known([row for row in alive if row.user]), *_by_link([row for row in alive if not row.user])]
    keys = {row.pk: rights.key_of(row.job_id, row) for row in known}
    shares = rights.openers(set(keys.values()))
    vcs = grants_of([row.user.username for row in known if row.user])
    may = [row for row in known if _may_open(row, shares[keys[row.pk]], vcs)]
    targets = _targets(may)
    return {hashes[str(row.cookie)]: _visit(row, *targets[row.pk]) for row in may}


def target_of(task: Task, page: WebPage, node: Node) -> Target:
    """Where the page of a running task is."""
    address = task.address or node.address
    return Target(task.pk, node.endpoint, node.tls_dir, address, page.port, page.is_tls, task.container_name)


def _may_open(row: PageVisit, shares: Iterable[PageShare], vcs: Mapping[str, Collection[str]]) -> bool:
    if row.user is not None:
        return rights.may_open(row.user, row.job.username, shares, vcs)
    return any(share.pk == row.link and share.kind == PageShare.Kind.LINK for share in shares)


def _by_link(rows: Sequence[PageVisit]) -> list[PageVisit]:
    """Those whose job has an owner who could sign in. Whether the link is still good is asked with all shares."""
    if not rows or not rights.links_are_on():
        return []
    owners = User.objects.filter(username__in={row.job.username for row in rows}, is_active=True)
    active = set(owners.values_list("username", flat=True))
    return [row for row in rows if row.job.username in active]


def _visit(row: PageVisit, target: Target | None, says: str) -> Visit:
    title = WebPage(row.role, row.index, row.label).title
    viewer = row.user.username if row.user else f"link {row.link}"  # no user has a blank in their name
    return Visit(row.pk, _key(row), viewer, row.job.username, row.job.name, title, target, says)


def _key(row: PageVisit) -> str:
    return origin.key_of(row.job_id, row.role, row.index, row.label)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _still_known(rows: Sequence[PageVisit]) -> list[PageVisit]:
    """Those whose session or token is still good."""
    sessions = _in_sessions({row.session for row in rows if row.session}, [row.user for row in rows if row.user])
    tokens = _in_tokens({row.token for row in rows if row.token is not None}, timezone.now())
    return [row for row in rows if row.user_id in (sessions.get(row.session), tokens.get(row.token))]


def _in_sessions(keys: Collection[str], known: Iterable[User]) -> dict[str, int]:
    """{key: id of the user} of the sessions in which one of these users is signed in."""
    if not keys:
        return {}
    users = {user.pk: user for user in known}
    signed_in = {}
    for session in Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now()):
        data = session.get_decoded()
        user = users.get(int(data.get(SESSION_KEY, 0)))
        if user and constant_time_compare(data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
            signed_in[session.session_key] = user.pk
    return signed_in


def _in_tokens(ids: Collection[int], now: datetime) -> dict[int | None, int]:
    if not ids:
        return {}
    rows = ApiToken.objects.filter(pk__in=ids, revoked_at=None, expires_at__gt=now)
    return dict(rows.values_list("pk", "user_id"))


def _targets(rows: Collection[PageVisit]) -> dict[int, tuple[Target | None, str]]:
    """The container that each visit leads to, or why there is none."""
    tasks = {
        (task.job_id, task.role, task.index): task
        for task in Task.objects.filter(job__in={row.job_id for row in rows}, state=TaskState.RUNNING)
        .filter(role__in={row.role for row in rows}, index__in={row.index for row in rows})
        .select_related("attempt")
        .order_by("attempt__number")
    }
    nodes = {node.name: node for node in Node.objects.filter(name__in={task.node for task in tasks.values()})}
    targets: dict[int, tuple[Target | None, str]] = {}
    for row in rows:
        task = tasks.get((row.job_id, row.role, row.index))
        if task is None or task.attempt.number != row.job.attempt_number:
            is_to_come = row.job.state in (JobState.WAITING, JobState.RUNNING)
            targets[row.pk] = None, "Its task does not run yet." if is_to_come else "The job has ended."
            continue
        numbers, node = task.ports.get(row.label), nodes.get(task.node)
        if not numbers or node is None:
            targets[row.pk] = None, f"{task.label} has no port {row.label}."
        else:
            page = WebPage(row.role, row.index, row.label, int(numbers[0]))
            targets[row.pk] = target_of(task, page, node), ""
    return targets
