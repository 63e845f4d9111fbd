"""What a notice says to whoever reads it, made when it is read or sent, so that it goes by the rights of that moment.

Nothing has a line of a log, a config or a secret in it: a message goes to machines that we do not know. To a virtual
cluster goes what any of its users may read of the job, which is less where LONGSHORE_JOB_PRIVACY is ``owner``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

from django.conf import settings

from base.accounts.viewer import Viewer
from base.core import words
from base.models import User
from base.roles import Role
from jobs import access
from jobs.diagnosis.evidence import Diagnosis, from_json
from jobs.history import ledger
from jobs.models import Attempt, Event, Job, NoticeRow
from jobs.notices.kinds import KINDS, NoticeKind

# Any user of a virtual cluster, who is nobody in particular.
_MEMBER = cast(Viewer, SimpleNamespace(is_authenticated=True, username="", is_admin=False, role=Role.USER, scopes=None))
_ENDED = {"succeeded": "has succeeded", "failed": "has failed", "stopped": "was stopped"}
_DID = {
    "started": "has started",
    "evicted": "was evicted",
    "failing": "fails again and again",
    "idle": "leaves GPUs idle",
}


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """``title`` is a sentence without its dot; ``lines`` are sentences; ``facts`` are (name, value) for tables.
    ``parts`` are the messages that are told together with this one."""

    kind: NoticeKind
    at: datetime
    about: str
    title: str
    path: str = ""
    lines: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    data: dict[str, Any] = field(default_factory=dict)
    parts: Sequence[NoticeMessage] = ()
    thread: str = ""  # the same for all that is told of one job

    @property
    def url(self) -> str:
        return f"{settings.PUBLIC_URL}{self.path}"


def viewer_of(row: NoticeRow) -> Viewer:
    return row.user or _MEMBER


def may_be_told(row: NoticeRow) -> bool:
    """Whether whom it is for may still be told: they may have been disabled, or be no admin any more, since."""
    user: User | None = row.user
    return user is None or (user.is_active and (user.is_admin or not KINDS[row.kind].for_admins))


def messages(rows: Iterable[NoticeRow]) -> list[NoticeMessage]:
    """What these notices say to those whom they are for. Four queries, however many there are."""
    rows = list(rows)
    parts = [id for row in rows for id in row.data.get("parts", ())]
    if parts:
        known_parts = NoticeRow.objects.filter(pk__in=parts).select_related("user")
        inner = {each.pk: each for each in known_parts if may_be_told(each)}
        within = {row.pk: [inner[id] for id in row.data["parts"] if id in inner] for row in rows if "parts" in row.data}
        known = _KnownRows([*rows, *inner.values()])
        return [known.message(row, [known.message(each) for each in within.get(row.pk, ())]) for row in rows]
    known = _KnownRows(rows)
    return [known.message(row) for row in rows]


class _KnownRows:
    """What the database says of some notices."""

    def __init__(self, rows: Sequence[NoticeRow]) -> None:
        ids = {row.job for row in rows if row.job}
        numbers = {(row.job, row.attempt) for row in rows}
        self._jobs = {job.pk: job for job in Job.objects.filter(pk__in=ids).defer("config", "spec")}
        attempts = Attempt.objects.filter(job__in=ids, number__in={row.attempt for row in rows if row.attempt})
        self._attempts = {
            (each.job_id, each.number): each for each in attempts if (each.job_id, each.number) in numbers
        }
        events = Event.objects.filter(pk__in=[row.event for row in rows if row.event])
        self._events = {event.pk: event for event in events}

    def message(self, row: NoticeRow, parts: Sequence[NoticeMessage] = ()) -> NoticeMessage:
        kind = KINDS[row.kind]
        if kind.about == "job":
            return self._of_job(row, kind)
        if parts or kind.name == "digest":
            title = f"{words.count(len(parts), 'notice')} of Longshore"
            return NoticeMessage(kind, row.at, row.about, title, "/notices", data={"parts": len(parts)}, parts=parts)
        path = f"/nodes/{quote(row.about)}" if kind.about == "node" else row.data.get("path", "/notices")
        return NoticeMessage(kind, row.at, row.about, row.data.get("title", kind.title), path, [row.says])

    def _of_job(self, row: NoticeRow, kind: NoticeKind) -> NoticeMessage:
        job, viewer = self._jobs.get(row.job or 0), viewer_of(row)
        username, _, name = row.about.partition("/")
        title = f"{row.about} {(_ENDED | _DID)[kind.name]}"
        data: dict[str, Any] = {
            "job": row.about,
            "user": username,
            "attempt": row.attempt,
            "virtualCluster": row.data.get("vc"),
        }
        facts = [("Virtual cluster", str(row.data.get("vc") or "")), ("Attempt", str(row.attempt or ""))]
        lines: list[str] = []
        if access.may_read_details(viewer, username):
            lines = [row.says or self._reason(row, viewer)]
            attempt = self._attempts.get((row.job or 0, row.attempt or 0))
            if kind.name in _ENDED and attempt is not None and attempt.exit_code is not None:
                data["exitCode"] = attempt.exit_code
                facts.append(("Exit code", words.code(attempt.exit_code)))
            if kind.name in ("failed", "failing") and attempt is not None:
                self._explain(attempt, lines, data)
        if kind.name in _ENDED:
            data["state"] = kind.name.upper()
        path = f"/jobs/{quote(username)}/{quote(name)}" if job is not None and job.deleted_at is None else "/jobs"
        lines = [line for line in lines if line]
        return NoticeMessage(
            kind,
            row.at,
            row.about,
            title,
            path,
            lines,
            [each for each in facts if each[1]],
            data,
            (),
            f"{settings.INSTANCE} {row.job}",
        )

    def _reason(self, row: NoticeRow, viewer: Viewer) -> str:
        event = self._events.get(row.event or 0)
        return ledger.as_read([event], viewer)[0].reason if event is not None else ""

    def _explain(self, attempt: Attempt, lines: list[str], data: dict[str, Any]) -> None:
        """Add the cause and the fix. Neither has anything out of a log."""
        found: Diagnosis | None = from_json(attempt.diagnosis)
        if found is None:
            return
        found = found.as_read(may_read_logs=False)
        cause = f"{found.name} in {found.task}" if found.task else found.name
        lines.append(f"Cause: {cause} ({found.certainty}).")
        data["cause"] = cause
        fixes = [str(action["label"]) for action in found.actions]
        if fixes or found.advice:
            data["fix"] = found.advice or fixes[0]
            lines.append(found.advice or f"What helps: {words.listing(fixes)}.")
