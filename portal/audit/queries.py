"""Finds rows of the audit: filters of an address, a page by cursor, and all of them in pieces for an export."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone
from pydantic import BeforeValidator, Field

from base.accounts.viewer import reads_all
from base.core.errors import BadRequest
from base.core.values import Moment, V1Answer, called
from base.core.words import whole
from base.models import AuditEvent, User
from portal.audit import words
from portal.shared.sheets import sheet

SIZE = 50
MOST_COUNTED = 10_000  # rows that tallies and choices go by, newest first: no filter makes a page count millions
PIECE = 1000  # rows of an export that are in memory at once
SPANS = {"24h": 1, "7d": 7, "30d": 30, "365d": 365, "all": 0}  # days
_NAMES = ("who", "what", "on", "since", "q", "k")


class AuditItem(V1Answer):
    """A row as the API and exports have it."""

    id: int = called("pk")
    time: Moment = called("at")
    who: str = called("actor")
    what: Annotated[str, BeforeValidator(words.what)] = called("action")
    action: str
    object: str
    ip: str | None = Field(serialization_alias="from")
    by: str = called("way")
    result: Annotated[str, BeforeValidator(lambda action: words.result(action) or "done")] = called("action")
    details: Annotated[str, BeforeValidator(words.details)] = called("data")


FIELDS = tuple(field.serialization_alias or name for name, field in AuditItem.model_fields.items())


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """``before`` and ``after`` are ids of rows; 0 for none. ``k`` is a kind of portal.audit.words."""

    who: str = ""
    what: str = ""
    on: str = ""
    since: str = "7d"
    q: str = ""
    k: str = ""
    before: int = 0
    after: int = 0

    @classmethod
    def read(cls, params: Mapping[str, str]) -> AuditQuery:
        """Raises BadRequest for a span or kind that there is not, and for a cursor that is no number."""
        texts = {name: params.get(name, "").replace("\x00", "").strip()[:200] for name in _NAMES}
        since = texts["since"] or "7d"
        if since not in SPANS:
            raise BadRequest(f"since must be one of {', '.join(SPANS)}.")
        if texts["k"] and texts["k"] not in words.KINDS:
            raise BadRequest(f"k must be one of {', '.join(words.KINDS)}.")
        before, after = (_id(name, params.get(name, "")) for name in ("before", "after"))
        return cls(**{**texts, "since": since}, before=before, after=after)

    def query(self, **changes: object) -> str:
        """These filters as the query of an address; defaults and cursors are left out."""
        values = {name: getattr(self, name) for name in _NAMES} | changes
        return urlencode({name: value for name, value in values.items() if value and (name, value) != ("since", "7d")})


def _id(name: str, text: str) -> int:
    if (number := whole(text or "0")) is None:
        raise BadRequest(f"{name} must be the id of a row.")
    return number


def rows_of(viewer: User, asked: AuditQuery, *, any_kind: bool = False) -> QuerySet[AuditEvent]:
    """What this user may see of what is asked for, newest first: who reads all everything, others what they did."""
    rows = AuditEvent.objects.order_by("-id")
    if not reads_all(viewer):
        rows = rows.filter(actor=viewer.username)
    if days := SPANS[asked.since]:
        begin = AuditEvent.objects.filter(at__gte=timezone.now() - timedelta(days=days)).order_by("at", "id")
        rows = rows.filter(id__gte=begin.values_list("id", flat=True).first() or 1 << 62)
    for field, value in (("actor", asked.who), ("action", asked.what), ("object", asked.on)):
        rows = rows.filter(**{field: value}) if value else rows
    if asked.q:
        rows = rows.annotate(address=Cast("ip", TextField()), said=Cast("data", TextField()))
        names = ("actor", "action", "object", "address", "said")
        rows = rows.filter(Q(*[(f"{name}__icontains", asked.q) for name in names], _connector=Q.OR))
    if asked.k and not any_kind:
        actions = AuditEvent.objects.values_list("action", flat=True).order_by("action").distinct()
        rows = rows.filter(action__in=[action for action in actions if words.kind_of(action) == asked.k])
    return rows


def page_of(viewer: User, asked: AuditQuery) -> tuple[list[AuditEvent], int, int]:
    """The rows of a page, and the cursors of newer and older ones; 0 where there are none."""
    matching = rows_of(viewer, asked)
    if asked.after:
        rows = list(matching.filter(id__gt=asked.after).order_by("id")[: SIZE + 1])
        newer = rows[SIZE - 1].pk if len(rows) > SIZE else 0
        rows = rows[:SIZE][::-1]
        return rows, newer, rows[-1].pk if rows else 0
    rows = list((matching.filter(id__lt=asked.before) if asked.before else matching)[: SIZE + 1])
    older = rows[SIZE - 1].pk if len(rows) > SIZE else 0
    return rows[:SIZE], rows[0].pk if rows and asked.before else 0, older


@dataclass(frozen=True, slots=True)
class Tallies:
    """What the newest MOST_COUNTED rows have, whatever their kind: how many of each kind, and who did what."""

    kinds: Counter[str]
    actors: tuple[str, ...]
    actions: tuple[str, ...]


def tallies(viewer: User, asked: AuditQuery) -> Tallies:
    newest = rows_of(viewer, asked, any_kind=True).values("pk")[:MOST_COUNTED]
    counted = AuditEvent.objects.filter(pk__in=newest).order_by().values("actor", "action").annotate(n=Count("pk"))
    kinds: Counter[str] = Counter()
    actors: Counter[str] = Counter()
    for row in counted:
        kinds[words.kind_of(row["action"])] += row["n"]
        actors[row["actor"]] += row["n"]
    actions = {row["action"] for row in counted}
    return Tallies(kinds, tuple(sorted(name for name, _ in actors.most_common(100))), tuple(sorted(actions)))


def csv_pieces(viewer: User, asked: AuditQuery) -> Iterator[bytes]:
    """All rows as CSV."""
    yield sheet([FIELDS]).encode()
    for rows in _pieces(viewer, asked):
        yield sheet(_cells(row) for row in rows).encode(errors="replace")


def line_pieces(viewer: User, asked: AuditQuery) -> Iterator[bytes]:
    """All rows as JSON, one on each line."""
    for rows in _pieces(viewer, asked):
        yield "".join(f"{json.dumps(AuditItem.of(row), ensure_ascii=False)}\n" for row in rows).encode(errors="replace")


def _pieces(viewer: User, asked: AuditQuery) -> Iterator[list[AuditEvent]]:
    """Reads each piece by a query of its own, so that nothing is held while a client reads."""
    matching, last = rows_of(viewer, asked), asked.before or 1 << 62
    while rows := list(matching.filter(id__lt=last)[:PIECE]):
        yield rows
        last = rows[-1].pk


def _cells(row: AuditEvent) -> Iterable[object]:
    return {**AuditItem.of(row), "time": row.at.isoformat(timespec="seconds")}.values()
