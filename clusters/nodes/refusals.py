"""Marks nodes that refuse starts of one kind. After three refusals in a row a node has a mark for that kind; tasks that
need it go elsewhere or wait, until a start of the kind succeeds there or the mark lapses.

A kind is no wider than what has failed. A registry that is down, or does not exist, marks the node for that registry
only. A node is marked for all starts only when it refused different images, so that nobody's broken image closes a node
to others, or when what failed is the node's own (its disk is full). Tasks of one attempt that are refused together
count once.

``Node.marks`` is {kind: {"attempts": [app ids], "images": [...], "sentence", "since", "until"}}, kind as in ``_key``.
An entry without "since" only counts refusals. An empty "until" is a trial's (clusters/nodes/trial.py). Functions that
take marks are pure and return new ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from clusters.engines.image_names import canonical, registry_of
from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node
from clusters.placement.fit import MARK_LASTS, Mark, counts
from portal.core.signals import node_learnt
from portal.wakes import wake

MOST = 3  # refusals in a row
KINDS = ("gpus", "pull", "start", "portal")  # the kinds of marks
_KINDS = {
    FaultReason.GPU_MISSING: "gpus",
    FaultReason.REGISTRY_UNREACHABLE: "pull",
    FaultReason.PULL_FAILED: "pull",
    FaultReason.NODE_BROKEN: "start",
    FaultReason.REFUSED: "start",
}
_SAYS = {
    "gpus": "Node {node} cannot hand out GPUs: {why}",
    "pull": "Node {node} cannot pull from {what}: {why}",
    "start": "Node {node} starts nothing: {why}",
}
Marks = Mapping[str, Mapping[str, Any]]


def refused(node: str, fault: RuntimeFault, *, image: str, attempt: str) -> None:
    """Count a start that the node refused because of ``fault``."""
    kind = _KINDS.get(fault.reason)
    if kind is None:
        return
    key = _key(kind, image)
    with transaction.atomic():
        row = _locked(node)
        if row is None:
            return
        sentence = _SAYS[kind].format(node=node, what=registry_of(image), why=_why(kind, fault))
        before = row.marks.get(key, {})
        is_sure = fault.reason is not FaultReason.REFUSED
        entry = counted(before, attempt, canonical(image), sentence, timezone.now(), is_sure=is_sure)
        _write(row, {**row.marks, key: entry})
        if entry.get("since") and not before.get("since"):
            node_learnt.send(None, node=node, kind="node.marked", reason=sentence)


def started(node: str, *, image: str, pulled: bool, gpus: bool) -> None:
    """A start succeeded there. Marks that it disproves are lifted, and the node is known to have its image."""
    row = Node.objects.only("marks", "images", "images_at").filter(name=node).first()
    if row is None:
        return
    name = canonical(image)
    if row.images_at is not None and name not in row.images:
        with transaction.atomic():
            locked = Node.objects.select_for_update().filter(name=node)
            for images in locked.values_list("images", flat=True):
                write_images(node, {*images, name})
    proved = {"start", *(["gpus"] if gpus else []), *([_key("pull", image)] if pulled else [])}
    if proved & row.marks.keys():
        learnt(node, dict.fromkeys(proved, ""))


def learnt(node: str, found: Mapping[str, str]) -> None:
    """Write down a trial: for each kind the sentence of what failed, or "" where it works."""
    with transaction.atomic():
        row = _locked(node)
        if row is None:
            return
        after = tried(row.marks, found, timezone.now())
        if after == row.marks:
            return
        _write(row, after)
        for key, sentence in found.items():
            was = row.marks.get(key, {})
            if sentence and not was.get("since"):
                node_learnt.send(None, node=node, kind="node.marked", reason=sentence)
            elif not sentence and was.get("since"):
                reason = f"It works again. Before: {was['sentence']}"
                node_learnt.send(None, node=node, kind="node.unmarked", reason=reason)


def write_images(node: str, images: Collection[str]) -> None:
    Node.objects.filter(name=node).update(images=sorted(images), images_at=timezone.now())
    wake.notify("scheduler")


def tried(marks: Marks, found: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """The marks after a trial. What failed stays marked until the next trial."""
    after = {key: entry for key, entry in marks.items() if found.get(key) != ""}
    for key, sentence in found.items():
        if sentence:
            since = marks.get(key, {}).get("since") or now.isoformat()
            after[key] = {**marks.get(key, {}), "sentence": sentence, "since": since, "until": ""}
    return after


def counted(
    before: Mapping[str, Any], attempt: str, image: str, sentence: str, now: datetime, *, is_sure: bool
) -> dict[str, Any]:
    """The entry with one more refusal. ``is_sure``: no image can be to blame for it."""
    attempts = [*(id for id in before.get("attempts", ()) if id != attempt), attempt][-MOST:]
    images = [*(known for known in before.get("images", ()) if known != image), image][-MOST:]
    entry = {"attempts": attempts, "images": images, "sentence": sentence}
    if len(attempts) >= MOST and (is_sure or len(images) > 1):
        entry |= {"since": before.get("since") or now.isoformat(), "until": (now + MARK_LASTS).isoformat()}
    return entry


def marks_of(marks: Marks) -> tuple[Mark, ...]:
    return tuple(
        Mark(
            kind=key.partition(" ")[0],
            sentence=entry["sentence"],
            what=key.partition(" ")[2],
            until=datetime.fromisoformat(entry["until"]) if entry["until"] else None,
        )
        for key, entry in sorted(marks.items())
        if entry.get("since")
    )


def marks_now(marks: Marks, now: datetime) -> tuple[Mark, ...]:
    """The marks that have not lapsed."""
    return tuple(mark for mark in marks_of(marks) if counts(mark, now))


def _key(kind: str, image: str) -> str:
    """``gpus``, ``start``, ``pull <registry>``, ``portal``."""
    return f"pull {registry_of(image)}" if kind == "pull" else kind


def _why(kind: str, fault: RuntimeFault) -> str:
    """Everybody reads marks. Where jobs are their owners' affair, the engine's words may name their images."""
    if settings.JOB_PRIVACY == "open" or kind == "gpus":
        return fault.sentence
    return "the events of the jobs that it refused say why."


def _locked(node: str) -> Node | None:
    return Node.objects.select_for_update().only("marks").filter(name=node).first()


def _write(row: Node, marks: Marks) -> None:
    Node.objects.filter(pk=row.pk).update(marks=marks, updated_at=timezone.now())
    wake.notify("scheduler")
    wake.notify("pages")
