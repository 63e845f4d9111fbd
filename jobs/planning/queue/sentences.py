"""Says in sentences which rule of the queue keeps a job waiting, with who or what holds what is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from clusters.placement.blockers import size
from clusters.placement.fit import Blocker
from jobs.planning.queue.scene import W
from portal.core import words

if TYPE_CHECKING:
    from jobs.planning.queue.lines import Queue
    from jobs.planning.queue.reclaim import Holder

MOST_HOLDERS = 3
PARKED = Blocker("parked", "Longshore could not plan this job. It looks again in a minute; its events say why.")


def delay(until: datetime, now: datetime) -> Blocker:
    until = until.astimezone(now.tzinfo)
    wait = words.duration((until - now).total_seconds())
    sentence = f"The next try is in {wait}, at {until:%H:%M:%S} ({words.zone(until)})."
    return Blocker("delay", sentence, until=until.isoformat(timespec="seconds"))


def stopped(vc: str) -> Blocker:
    return Blocker("vc_stopped", f"VC {vc} is stopped, so nothing new starts in it.")


def queue(ahead: int, vc: str, waits: str = "", *, is_eldest: bool = False) -> Blocker:
    """``waits`` is the one of them for which no room is kept yet, if there is one; ``is_eldest`` says that it has
    waited longest of all jobs."""
    jobs = "One job is" if ahead == 1 else f"{ahead:,} jobs are"
    but = "it starts before them only on room that they do not need."
    if waits:
        but = f"no room can be kept for {waits} yet, since room is kept for others, and "
        elder, other = (
            "nothing starts before it, as no job has waited longer.",
            "others start on what is kept for nobody.",
        )
        but += elder if is_eldest else other
    return Blocker("queue", f"{jobs} ahead of it in VC {vc}; {but}", have=str(ahead))


def evicting(victims: Sequence[Holder[W]]) -> Blocker:
    if not victims:
        return Blocker("evicting", "The jobs that hold its room are ending; it starts when they are gone.")
    names = words.listing(one.job.title for one in victims)
    return Blocker("evicting", f"{names} must give back the room that this job has a right to.", have=names)


def reserved(names: Sequence[str]) -> Blocker:
    listed = words.listing(names)
    return Blocker("reserved", f"The room that it would fit into is reserved for {listed}.", have=listed)


def dedicated(node: str, vc: str) -> Blocker:
    return Blocker("dedicated", f"Node {node} has room, but it serves VC {vc} only.", node=node)


def ceiling(job: W, what: Sequence[str], asked_queue: Queue[W], before: W | None) -> Blocker:
    """``before`` waits for the same ceiling."""
    vc, first = job.vc, what[0]
    most = asked_queue.scene.quota(vc).ceiling.get(first, 0)
    asks = asked_queue.asked(job.demands)
    wants, uses = asks.get(first) or asks.get("gpu", 0), asked_queue.lines[vc].use.get(first, 0)
    sentence = f"VC {vc} may use {_amount(first, most)} at most; it uses {_amount(first, uses)}, and this job asks for "
    sentence += f"{_amount(first, wants)}."
    if before is not None:
        sentence += f" {before.title} is ahead of it there."
    elif held := _who(first, vc, "", asked_queue):
        sentence += f" {held}"
    return Blocker("ceiling", sentence, need=_amount(first, wants), have=_amount(first, max(0, most - uses)))


def cap(job: W, what: Sequence[str], asked_queue: Queue[W]) -> Blocker:
    quota = asked_queue.scene.quota(job.vc)
    if what[0] == "jobs":
        limit = words.count(quota.user_jobs or 0, "job")
        sentence = f"A user may run {limit} at once in VC {job.vc}."
        need = "1 job"
    else:
        limit, need = _amount("gpu", quota.user_gpus or 0), _amount("gpu", asked_queue.asked(job.demands).get("gpu", 0))
        sentence = f"A user may hold {limit} at once in VC {job.vc}; this job asks for {need}."
    held = _who("gpu" if what[0] == "gpu" else "", job.vc, job.username, asked_queue)
    return Blocker("cap", f"{sentence} {held}".strip(), need=need, have=limit)


def _who(what: str, vc: str, username: str, asked_queue: Queue[W]) -> str:
    """ "u/a holds 4 GPUs, u/b 2 GPUs." of those who hold most of it."""
    found: list[tuple[float, str]] = []
    for one in asked_queue.holders:
        if one.job.vc == vc and username in ("", one.job.username):
            mine = asked_queue.held(one).get(what or "cpu", 0)
            if mine:
                found.append((mine, one.job.title))
    found.sort(key=lambda each: (-each[0], each[1]))
    listed = [f"{title} {_amount(what, mine)}" if what else title for mine, title in found[:MOST_HOLDERS]]
    if not listed:
        return ""
    more = f" and {words.count(len(found) - MOST_HOLDERS, 'other')}" if len(found) > MOST_HOLDERS else ""
    return f"{'Held now' if what else 'Running now'}: {', '.join(listed)}{more}."


def _amount(what: str, number: float) -> str:
    if what == "memory":
        return size(int(number))
    count = int(number + 1e-9)
    if what == "cpu":
        return words.count(count, "CPU core")
    kind = what.partition(":")[2]
    return words.count(count, f"{kind} GPU".strip())
