"""Says in sentences which rule of the queue keeps a job waiting, and what it lacks on the nodes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from base.core import words
from clusters.placement.blockers import blockers
from clusters.placement.fit import Blocker, NodeView
from clusters.placement.free import FreeNodes
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.reservations import Reservation
from jobs.planning.queue.scene import OVERDUE, JobT, Resting, Runner, Scene, SchedulableJob

_GIVES_BACK = "{} must give back the room that this job has a right to."
_WITHIN = "Within the guarantee of their virtual cluster they start before that."
_RESERVED = "The room that it would fit into is reserved for {}."
PARKED = Blocker("parked", "Longshore could not plan this job. It looks again in a minute; its events say why.")


def delay(until: datetime, now: datetime) -> Blocker:
    return _until(until, now, "The next try is", ".")


def rests(job: SchedulableJob, rest: Resting | None, displaced: Mapping[str, SchedulableJob], now: datetime) -> Blocker:
    """Its user rests, or is ``displaced``: by user, by which job."""
    who = f"Jobs of {job.username}"
    if (owner := displaced.get(job.username)) is not None:
        says = f"{who} leave borrowed room for {{}}, and borrow nothing before that has started. {_WITHIN}"
        return _with_names(lambda name: Blocker("delay", says.format(name)), [owner], "another job")
    assert rest is not None
    username, _, name = rest.owner.partition("/")

    def of(title: str) -> Blocker:
        what = f"{who} left borrowed room for {title}: they borrow again"
        return _until(rest.until, now, what, f", each time after twice as long. {_WITHIN}")

    if not name:
        return of("another job")
    return replace(of(rest.owner), owners=(username,), otherwise=of("another job").sentence)


def _until(until: datetime, now: datetime, what: str, end: str) -> Blocker:
    until = until.astimezone(now.tzinfo)
    wait = words.duration((until - now).total_seconds())
    sentence = f"{what} in {wait}, at {until:%H:%M:%S} ({words.zone(until)}){end}"
    return Blocker("delay", sentence, until=until.isoformat(timespec="seconds"))


def stopped(vc: str) -> Blocker:
    return Blocker("vc_stopped", f"VC {vc} is stopped, so nothing new starts in it.")


def queue(ahead: int, vc: str, waits: SchedulableJob | None, is_eldest: bool, later: int, overdue: int) -> Blocker:
    """``later`` is how many of those ahead came later than it, ``overdue`` how many others did that are overdue;
    ``waits`` is the one of them without a reservation so far, if there is one; ``is_eldest`` says that it has waited
    longest of all jobs."""
    if waits is not None:
        return _with_names(
            lambda name: _queue(ahead, vc, name, is_eldest, later, overdue), [waits], "the first of them"
        )
    return _queue(ahead, vc, "", is_eldest, later, overdue)


def _queue(ahead: int, vc: str, waits: str, is_eldest: bool, later: int, overdue: int) -> Blocker:
    jobs = "One job is" if ahead == 1 else f"{ahead:,} jobs are"
    but = "it starts before them only on room that they do not need."
    if waits:
        but = f"no room can be kept for {waits} yet, since room is kept for others, and "
        elder, other = (
            "nothing starts before it, as no job has waited longer.",
            "others start on what is kept for nobody.",
        )
        but += elder if is_eldest else other
    if later:
        which, have = ("One", "its user has") if later == 1 else (f"{later:,}", "their users have")
        but += f" {which} of them came later: {have} used less of VC {vc} lately, with what they hold."
    if overdue:
        which, whose = ("One", "its user") if overdue == 1 else (f"{overdue:,}", "their users")
        waited = words.duration(OVERDUE.total_seconds())
        but += f" {which} of them came later: no job of {whose} has started or ended in VC {vc} for {waited}."
    return Blocker("queue", f"{jobs} ahead of it in VC {vc}; {but}", have=str(ahead))


def evicting(victims: Sequence[Runner[JobT]]) -> Blocker:
    if not victims:
        return Blocker("evicting", "The jobs that hold its room are ending; it starts when they are gone.")
    jobs = [victim.job for victim in victims]
    return _with_names(lambda names: Blocker("evicting", _GIVES_BACK.format(names)), jobs, _others(jobs).capitalize())


def spared(reservation: Reservation[JobT], scene: Scene[JobT]) -> Blocker:
    """Who leaves for it once they have run for the minimum of their virtual clusters."""
    jobs, moment = [each.job for each in reservation.spared], reservation.moment or scene.now
    vc = max((job.vc for job in jobs), key=lambda vc: scene.quota(vc).min_run)
    least = words.duration(60 * scene.quota(vc).min_run)

    def of(names: str) -> Blocker:
        what = f"{_GIVES_BACK.format(names)} What VC {vc} borrows runs for {least} at least: that is over"
        return replace(_until(moment, scene.now, what, "."), kind="spared")

    return _with_names(of, jobs, _others(jobs).capitalize())


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


def lapsed(job: SchedulableJob, lapse: Idling, now: datetime) -> Blocker:
    whom = "it" if lapse.job == job.id else f"another job of VC {job.vc}"
    until = lapse.until.isoformat(timespec="seconds") if lapse.until else ""
    return Blocker("lapsed", of_lapse(lapse, whom, now), until=until)


def of_lapse(lapse: Idling, whom: str, now: datetime) -> str:
    """What a page says of a reservation that has lapsed; ``whom`` is its job. It is not kept again before the minute
    that is told."""
    since, ended, until = (at_minute(each or now, now) for each in (lapse.since, lapse.ended, lapse.until))
    hours = words.hours(lapse.idled / 3600).removesuffix(".0")
    return (
        f"Room was kept for {whom} from {since} to {ended} and idled {hours} GPU-hours. Others may use it until "
        f"{until} ({words.zone(now)}), then it is kept again."
    )


def at_minute(moment: datetime, now: datetime) -> str:
    return words.clock(words.next_minute(moment), now)


def reserved(jobs: Sequence[SchedulableJob]) -> Blocker:
    return _with_names(lambda names: Blocker("reserved", _RESERVED.format(names)), jobs, _others(jobs))


def _others(jobs: Sequence[SchedulableJob]) -> str:
    return "another job" if len(jobs) == 1 else f"{len(jobs)} other jobs"


def _with_names(of: Callable[[str], Blocker], jobs: Sequence[SchedulableJob], otherwise: str) -> Blocker:
    """The blocker with the names of these jobs, and what it is for those who may not read why they wait or leave."""
    owners = tuple(sorted({job.username for job in jobs}))
    named = of(words.listing(job.title for job in jobs))
    return replace(named, owners=owners, otherwise=of(otherwise).sentence)


def dedicated(node: str, vc: str) -> Blocker:
    return Blocker("dedicated", f"Node {node} has room, but it serves VC {vc} only.", node=node)


# --- on the nodes ----------------------------------------------------------------------------------------------------


def missing(job: JobT, scene: Scene[JobT], left: Sequence[NodeView]) -> list[Blocker]:
    """What the nodes that are ``left`` lack."""
    off = scene.appointed.withheld(job)
    serving = [node for node in left if node.serves(job.vc) and node.name not in off]
    lacks = blockers([replace(node, dedicated_to="") if node.dedicated_to else node for node in serving], job.demands)
    if not lacks:
        return []
    if off and not serving:
        return scene.appointed.blockers(job, off)
    foreign = {node.name: node.dedicated_to for node in left if not node.serves(job.vc)}
    everywhere = [replace(node, dedicated_to="") for node in left] if foreign or off else []
    placements = FreeNodes(everywhere).place(job.demands)
    used = sorted({place.node for place in placements or ()} & foreign.keys())
    because = scene.appointed.blockers(job, frozenset(place.node for place in placements or ()) & off or off)
    return [*because, *lacks, *(dedicated(name, foreign[name]) for name in used[:3])]


def beside_reservations(
    job: JobT, scene: Scene[JobT], left: Sequence[NodeView], reservations: Sequence[Reservation[JobT]]
) -> list[Blocker]:
    """Say so where it would fit on what is reserved for others, and does not beside that."""
    others = [other for other in reservations if other.job.id != job.id]
    free = FreeNodes(node for node in left if node.name not in scene.unseen)
    for other in others:
        free.set_aside(other.demands, other.nodes)
    off = scene.appointed.withheld(job)
    if not others or free.place(job.demands, job.salt, job.avoid, job.vc, off) is not None:
        return []
    return [reserved([other.job for other in others])]
