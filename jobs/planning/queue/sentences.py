"""Says in sentences which rule of the queue keeps a job waiting. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from base.core import words
from clusters.placement.fit import Blocker
from jobs.planning.queue.scene import JobT, Runner, SchedulableJob

PARKED = Blocker("parked", "Longshore could not plan this job. It looks again in a minute; its events say why.")


def delay(until: datetime, now: datetime) -> Blocker:
    return _until(until, now, "The next try is", ".")


def rests(job: SchedulableJob, until: datetime, now: datetime) -> Blocker:
    times = words.count(job.evictions, "time")
    what = f"It was evicted {times} from room that VC {job.vc} had borrowed: it borrows again"
    return _until(until, now, what, ", or starts before that within the guarantee.")


def _until(until: datetime, now: datetime, what: str, end: str) -> Blocker:
    until = until.astimezone(now.tzinfo)
    wait = words.duration((until - now).total_seconds())
    sentence = f"{what} in {wait}, at {until:%H:%M:%S} ({words.zone(until)}){end}"
    return Blocker("delay", sentence, until=until.isoformat(timespec="seconds"))


def stopped(vc: str) -> Blocker:
    return Blocker("vc_stopped", f"VC {vc} is stopped, so nothing new starts in it.")


def queue(ahead: int, vc: str, waits: str = "", *, is_eldest: bool = False) -> Blocker:
    """``waits`` is the one of them without a reservation so far, if there is one; ``is_eldest`` says that it has
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


def evicting(victims: Sequence[Runner[JobT]]) -> Blocker:
    if not victims:
        return Blocker("evicting", "The jobs that hold its room are ending; it starts when they are gone.")
    names = words.listing(victim.job.title for victim in victims)
    return Blocker("evicting", f"{names} must give back the room that this job has a right to.", have=names)


def owners(job: SchedulableJob, vcs: Sequence[str]) -> Blocker:
    """``vcs`` are the virtual clusters whose jobs stay within their guarantees, and are in the way."""
    theirs = f"VC {vcs[0]} uses room within its guarantee"
    if len(vcs) > 1:
        theirs = f"VCs {words.listing(vcs)} use room within their guarantees"
    fewer = "fewer GPUs" if any(demand.gpus for demand in job.demands) else "less"
    return Blocker(
        "owners",
        f"{theirs} that this job would need, and with it VC {job.vc} would be beyond its own: no room is kept for it, "
        f"and those behind it go on. An appointment would give it the room; it may also ask for {fewer}.",
        have=words.listing(vcs),
    )


def reserved(names: Sequence[str]) -> Blocker:
    listed = words.listing(names)
    return Blocker("reserved", f"The room that it would fit into is reserved for {listed}.", have=listed)


def dedicated(node: str, vc: str) -> Blocker:
    return Blocker("dedicated", f"Node {node} has room, but it serves VC {vc} only.", node=node)
