"""Marks nodes that refuse starts of one kind. After three refusals in a row a node has a mark for that kind; tasks that
need it go elsewhere or wait, until a start of the kind succeeds there or the mark lapses.

A kind is no wider than what has failed: a registry that is down marks the node for that registry only. A node is marked
only when it refused different images, so that nobody's broken image closes a node to others, or when no image can be to
blame: it hands out no GPUs, its disk is full, or it cannot reach a registry from which some node has images. A registry
that nobody ever pulled from is a matter of the job that names it. Tasks of one attempt that are refused together count
once.

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

from base.core.bulk import first_row
from base.core.signals import node_learnt
from base.wakes import wake
from clusters.engines.image_names import DOCKER_HUB, canonical, registry_of
from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node
from clusters.placement.fit import MARK_LASTS, Mark

MOST = 3  # refusals in a row
_SURE = (FaultReason.GPU_MISSING, FaultReason.NODE_BROKEN, FaultReason.REGISTRY_UNREACHABLE)  # whatever the image
MOST_PORTS = 1_000  # that a node withholds at once: whoever makes refusals up keeps others from no more than these
KINDS = ("gpus", "gpu", "pull", "start", "portal")  # the kinds of marks
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


def refused(node: str, fault: RuntimeFault, *, image: str, attempt: str, gpus: Collection[str] = ()) -> RuntimeFault:
    """Count a start with these ``gpus`` that the node refused because of ``fault``. Returns the fault as it is told to
    the job."""
    kind = _KINDS.get(fault.reason)
    if kind is None:
        return fault
    if kind == "pull" and not _is_known(registry_of(image)):
        return _unknown(fault, registry_of(image))
    key = _key(kind, image)
    with transaction.atomic():
        row = _locked(node)
        if row is None:
            return fault
        sentence = _SAYS[kind].format(node=node, what=registry_of(image), why=_why(kind, fault))
        before = row.marks.get(key, {})
        is_sure = fault.reason in _SURE
        entry = counted(before, attempt, canonical(image), sentence, timezone.now(), is_sure=is_sure)
        marks = {**row.marks, key: entry}
        if kind == "gpus":
            others = {key: mark for key, mark in marks.items() if not key.startswith(_gpu(""))}
            marks = others if entry.get("since") else {**marks, **_single(row, gpus, sentence)}
        _write(row, marks)
        if entry.get("since") and not before.get("since"):
            node_learnt.send(None, node=node, kind="node.marked", reason=sentence)
    return fault


def started(node: str, *, image: str, pulled: bool, gpus: Collection[str]) -> None:
    """A start succeeded there. Marks that it disproves are lifted, and the node is known to have its image."""
    row = first_row(Node, "SELECT id, marks, images, images_at FROM clusters_node WHERE name = %s", node)
    if row is None:
        return
    name = canonical(image)
    if row.images_at is not None and name not in row.images:
        with transaction.atomic():
            locked = Node.objects.select_for_update().filter(name=node)
            for images in locked.values_list("images", flat=True):
                write_images(node, {*images, name})
    proved = {"start", *(["gpus"] if gpus else []), *map(_gpu, gpus), *([_key("pull", image)] if pulled else [])}
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
    """Return the entry with one more refusal. ``is_sure``: no image can be to blame for it."""
    attempts = [*(id for id in before.get("attempts", ()) if id != attempt), attempt][-MOST:]
    images = [*(known for known in before.get("images", ()) if known != image), image][-MOST:]
    entry = {"attempts": attempts, "images": images, "sentence": sentence}
    if len(attempts) >= MOST and (is_sure or len(images) > 1):
        entry |= {"since": before.get("since") or now.isoformat(), "until": (now + MARK_LASTS).isoformat()}
    return entry


def ports_refused(found: Mapping[int, Collection[int]], now: datetime) -> None:
    """Write down, by id of the node, ports on which a task found something else. In a transaction of the caller."""
    for row in Node.objects.select_for_update().only("refused_ports").filter(pk__in=found):
        newest = {**row.refused_ports, **dict.fromkeys(map(str, found[row.pk]), (now + MARK_LASTS).isoformat())}
        lasting = [(port, until) for port, until in newest.items() if datetime.fromisoformat(until) > now]
        lasting.sort(key=lambda each: each[1])
        row.refused_ports = dict(lasting[-MOST_PORTS:])
        row.save(update_fields=["refused_ports", "updated_at"])


def refused_ports_of(refused: Mapping[str, str]) -> tuple[tuple[int, datetime], ...]:
    return tuple((int(port), datetime.fromisoformat(until)) for port, until in refused.items())


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


def _key(kind: str, image: str) -> str:
    """``gpus``, ``start``, ``pull <registry>``, ``portal``; single GPUs are ``gpu <id>``."""
    return f"pull {registry_of(image)}" if kind == "pull" else kind


def _gpu(id: str) -> str:
    return f"gpu {id}"


def _single(row: Node, gpus: Collection[str], sentence: str) -> Marks:
    """Marks of the GPUs of one refused start, where the node has others: these are left alone for some time, so that
    the next start tries others. Three refusals in a row mark all."""
    if len(gpus) >= len(row.gpus):
        return {}
    now = timezone.now()
    entry = {"sentence": sentence, "since": now.isoformat(), "until": (now + MARK_LASTS).isoformat()}
    return {_gpu(id): {**entry, "sentence": f"GPU {id}: {sentence}"} for id in gpus}


def _is_known(registry: str) -> bool:
    """Whether something was ever pulled from it, as far as the nodes know."""
    if registry == DOCKER_HUB:
        return True
    return any(
        registry_of(name) == registry for images in Node.objects.values_list("images", flat=True) for name in images
    )


def _unknown(fault: RuntimeFault, registry: str) -> RuntimeFault:
    if fault.reason is not FaultReason.REGISTRY_UNREACHABLE:
        return fault
    sentence = f"{fault.sentence} No node has ever got an image from {registry}: its name may be mistyped."
    return RuntimeFault(sentence, reason=FaultReason.REGISTRY_UNKNOWN)


def _why(kind: str, fault: RuntimeFault) -> str:
    """Everybody reads marks. Where jobs are their owners' affair, the engine's words may name their images."""
    if settings.JOB_PRIVACY == "open" or kind == "gpus":
        return fault.sentence
    return "the events of the jobs that it refused say why."


def _locked(node: str) -> Node | None:
    return Node.objects.select_for_update().only("marks", "gpus").filter(name=node).first()


def _write(row: Node, marks: Marks) -> None:
    Node.objects.filter(pk=row.pk).update(marks=marks, updated_at=timezone.now())
    wake.notify("scheduler", "pages")
