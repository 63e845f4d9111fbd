"""Appointments: which moments they cover, whom they keep off, and who leaves when one begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.appointments.rules import AppointmentView, Holder, Span, choose, conflict, find_mistake
from clusters.placement.shares import Quota
from jobs.config.spec import JobSpec
from jobs.planning.planner import plan
from jobs.planning.queue.appointments import Appointed, by_node
from jobs.planning.queue.scene import Scene
from jobs.planning.turns import Turn, turns
from jobs.planning.world import JobPlan, JobView
from tests.unit.test_planner import NOW, container, job, node, seen, task, world

HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
NOBODY = Holder()


def asked(**values: Any) -> AppointmentView:
    span = span_of()
    given = {"begin": span.begin, "end": span.end, "nodes": span.nodes, "holder": NOBODY, **values}
    return AppointmentView(id=given.pop("id", 1), title="firmware", **given)


def span_of(begin: timedelta = HOUR, hours: float = 2, holder: Holder = NOBODY, nodes: str = "n1") -> Span:
    return Span(1, "firmware", holder, frozenset(nodes.split()), NOW + begin, NOW + begin + hours * HOUR)


def waiting(id: int = 1, seconds: int | None = None, preemptible: bool = False, **values: Any) -> JobView:
    extras = {"maxRunSeconds": seconds} if seconds else {"preemptible": preemptible}
    roles = [{"name": "w", "command": "x", "taskNumber": 1, "gpuNumber": 1}]
    asked = JobSpec.from_json({"jobName": "j", "image": "i", "taskRoles": roles, "extras": extras})
    return job(id, "WAITING", spec=asked, **values)


def turn_of(one: JobView, *spans: Span, **values: Any) -> Turn[JobView]:
    [turn] = turns([one], Scene(values.pop("nodes", (node(),)), NOW, spans=spans, **values))
    return turn


def test_before_it_begins_those_start_who_end_in_time_or_may_be_stopped() -> None:
    cases = [waiting(seconds=3600), waiting(preemptible=True), waiting(seconds=3601), waiting()]
    assert [turn_of(one, span_of()).move for one in cases] == ["go", "go", "skip", "skip"]


def test_a_job_that_does_not_say_how_long_it_runs_counts_as_one_of_a_day() -> None:
    assert turn_of(waiting(), span_of(24 * HOUR)).move == "go"
    assert turn_of(waiting(), span_of(24 * HOUR - timedelta(seconds=1))).move == "skip"


def test_while_it_runs_only_those_start_whom_it_is_for() -> None:
    running = span_of(-HOUR, holder=Holder("nlp"))
    assert turn_of(waiting(vc="nlp"), running).move == "go"
    assert turn_of(waiting(vc="vision", preemptible=True), running).move == "skip"
    assert turn_of(waiting(vc="nlp"), span_of(-HOUR)).move == "skip"
    assert turn_of(waiting(), span_of(-2 * HOUR)).move == "go"  # it has just ended


@pytest.mark.parametrize(
    "holder", [Holder(vc="default"), Holder(username="lena"), Holder(job="lena~bert"), Holder("default", "lena")]
)
def test_it_is_for_a_virtual_cluster_a_user_or_one_job(holder: Holder) -> None:
    own = waiting(vc="default", username="lena", name="bert")
    assert turn_of(own, span_of(-HOUR, holder=holder)).move == "go"
    other = replace(own, username="tom", vc="default" if holder.username or holder.job else "vision")
    assert turn_of(other, span_of(-HOUR, holder=holder)).move == "skip"


def test_a_job_in_its_way_goes_to_another_node_and_keeps_nobody_waiting() -> None:
    assert turn_of(waiting(), span_of(), nodes=(node(), node("n2"))).placements[0].node == "n2"
    first, second = turns([waiting(1), waiting(2, seconds=60)], Scene((node(),), NOW, spans=(span_of(),)))
    assert {first.job.id: first.move, second.job.id: second.move} == {1: "skip", 2: "go"}


def test_who_waits_is_told_the_appointment_and_without_it_starts() -> None:
    [blocker] = turn_of(waiting(), span_of()).blockers
    assert blocker.kind == "appointment"
    assert blocker.sentence.startswith("It would run into an appointment on n1: kept from ")
    assert " by an appointment. It counts as one of a day, " in blocker.sentence, "not for whom and why"
    assert turn_of(waiting()).move == "go"


def test_a_full_node_beside_an_appointment_gives_both_reasons() -> None:
    busy = node("n2", used_gpus=frozenset("01234567"))
    kinds = [blocker.kind for blocker in turn_of(waiting(), span_of(), nodes=(node(), busy)).blockers]
    assert kinds[0] == "appointment" and "gpus" in kinds


def test_of_many_alike_that_wait_the_one_it_is_for_starts() -> None:
    """A pass leaves out those that find no room as well, many at once."""
    busy, one = node("n2", used_gpus=frozenset("0123")), waiting(1)
    alike = [replace(one, id=id, name=f"j{id}", since=f"{id:06}") for id in range(1, 9)]
    mine = span_of(-HOUR, holder=Holder(job="u~j7"))
    made = turns(alike, Scene((node(), busy), NOW, spans=(mine,)), only_tried=True)
    assert [(turn.job.id, turn.move) for turn in made] == [(1, "reserve"), (7, "go")]


def test_nobody_is_evicted_for_room_that_an_appointment_withholds() -> None:
    """The owner could not use it, so the borrower on it stays."""
    own = waiting(2, vc="owner")
    full = node(used_gpus=frozenset("01"))
    hold = {"running": lambda: (), "quotas": {"owner": Quota({"gpu": 2, "cpu": 64, "memory": 1 << 20})}}
    turn = turn_of(own, span_of(), nodes=(full,), **hold)
    assert (turn.move, turn.victims, turn.reservation) == ("skip", (), None)


def test_a_virtual_cluster_has_the_right_to_what_it_is_given() -> None:
    """So a gang beyond the guarantee and the ceiling starts, and is no borrower."""
    quota = {"nlp": Quota({"gpu": 0, "cpu": 64, "memory": 1 << 20}, {"gpu": 0, "cpu": 64, "memory": 1 << 20})}
    scene = Scene((node(),), NOW, quota, spans=(span_of(-HOUR, holder=Holder("nlp")),))
    assert scene.quota("nlp").guarantee["gpu"] == len(node().gpus)
    assert turn_of(waiting(vc="nlp"), *scene.spans, quotas=quota).move == "go"
    assert turn_of(waiting(vc="nlp"), quotas=quota).move == "skip"
    assert Scene((node(),), NOW, quota, spans=(span_of(holder=Holder("nlp")),)).quota("nlp") == quota["nlp"]
    of_a_manager = replace(span_of(-HOUR, holder=Holder("nlp")), adds=False)
    assert Scene((node(),), NOW, quota, spans=(of_a_manager,)).quota("nlp") == quota["nlp"]
    ended = Scene((node(),), NOW, quota, spans=(span_of(-HOUR, holder=Holder("nlp", "lena")),))
    assert ended.quota("nlp") == quota["nlp"]  # one user's is not everybody's


def planned(runs: JobView, *spans: Span) -> list[JobPlan]:
    looks = seen(container("c1"))
    live = [(runs, [task(1, job_id=runs.id)])]
    return plan(world(live=live, looks=looks, spans=spans, appointed=by_node(spans, NOW))).jobs


def test_at_its_begin_others_leave_without_a_retry_of_theirs() -> None:
    assert planned(job(), span_of()) == []
    [left] = planned(job(), span_of(timedelta()))
    assert left.decision is not None and left.decision.exit.code == -7120
    assert left.evicted is not None and "appointment on n1" in left.evicted.reason
    assert left.evicted.owner is None and not left.evicted.was_guest


def test_whom_it_is_for_stays_when_it_begins() -> None:
    mine = job(username="lena", name="bert")
    assert planned(mine, span_of(timedelta(), holder=Holder(job="lena~bert"))) == []
    assert planned(mine, span_of(timedelta(), holder=Holder(job="lena~other")))


def test_a_job_that_was_stopped_for_it_does_not_come_back_while_it_runs() -> None:
    span = span_of(timedelta())
    assert planned(job(), span)
    assert turn_of(waiting(preemptible=True), span).move == "skip"


def test_the_scheduler_comes_back_when_it_begins_and_when_it_ends() -> None:
    assert plan(world(spans=(span_of(),))).again_at == NOW + HOUR
    assert plan(world(spans=(span_of(-HOUR),))).again_at == NOW + HOUR


def test_many_jobs_of_a_kind_cost_one_look_at_each_appointment() -> None:
    looked = []

    class Counted(Holder):
        def takes(self, vc: str, username: str, name: str) -> bool:
            looked.append(username)
            return False

    seen = Appointed([replace(span_of(), holder=Counted(), id=at) for at in range(200)], NOW)
    assert {seen.withheld(waiting(at)) for at in range(1_000)} == {frozenset({"n1"})}
    assert len(looked) == 200


def test_a_weekly_one_keeps_its_hours_when_summer_time_ends() -> None:
    zone = ZoneInfo("Europe/Berlin")
    begin, end = datetime(2026, 10, 20, 8, tzinfo=zone), datetime(2026, 10, 20, 20, tzinfo=zone)
    weekly = asked(begin=begin.astimezone(UTC), end=end.astimezone(UTC), zone="Europe/Berlin", weekly=True)
    spans = weekly.spans(begin, 2)
    assert [(each.begin.astimezone(zone).hour, each.end.astimezone(zone).hour) for each in spans] == [(8, 20), (8, 20)]
    assert spans[1].begin - spans[0].begin == WEEK + HOUR
    in_utc = replace(weekly, zone="UTC").spans(begin, 2)
    assert in_utc[1].begin - in_utc[0].begin == WEEK


@given(weeks=st.integers(0, 500), minutes=st.integers(0, 7 * 24 * 60 - 1))
def test_the_next_time_of_a_weekly_one_is_the_first_that_is_not_over(weeks: int, minutes: int) -> None:
    weekly = asked(weekly=True, zone="Europe/Berlin")
    now = weekly.begin + weeks * WEEK + timedelta(minutes=minutes)
    span = weekly.span(now)
    assert span is not None and span.end > now and span.begin - now <= WEEK + 2 * HOUR
    ended = [each for each in weekly.spans(weekly.begin, weeks + 3) if each.begin < span.begin]
    assert all(each.end <= now for each in ended)


def test_it_is_over_after_its_end_unless_it_is_weekly() -> None:
    assert asked().span(NOW + 4 * HOUR) is None
    assert asked(weekly=True).span(NOW + 4 * HOUR) is not None


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ({"end": NOW}, "It must end after it begins."),
        ({"end": NOW + timedelta(days=40)}, "It may last 31 days at most."),
        ({"end": NOW + timedelta(days=9), "weekly": True}, "It may last 7 days at most."),
        ({"begin": NOW - HOUR}, "It begins in the past; let it begin now or later."),
        ({"begin": NOW + 400 * 24 * HOUR, "end": NOW + 401 * 24 * HOUR}, "It may begin at most 366 days from now."),
        ({"nodes": frozenset()}, "It must name a node, or an amount of GPUs."),
        ({}, ""),
    ],
)
def test_what_it_may_be(values: dict[str, Any], mistake: str) -> None:
    assert find_mistake(asked(**values), NOW) == mistake


def test_one_that_runs_may_be_changed_with_its_begin_as_it_is() -> None:
    runs = asked(begin=NOW - HOUR)
    assert find_mistake(replace(runs, end=NOW + 5 * HOUR), NOW, runs) == ""
    assert find_mistake(replace(runs, end=NOW), NOW, runs) == "All of it is in the past."
    assert find_mistake(replace(runs, begin=NOW - 2 * HOUR), NOW, runs).startswith("It begins in the past")


def test_two_of_different_people_do_not_have_a_node_at_once() -> None:
    first, second = asked(holder=Holder("nlp")), asked(id=2, holder=Holder("vision"))
    assert conflict(second, [first], NOW).startswith("It meets another appointment. n1: kept for VC nlp from ")
    assert conflict(replace(second, holder=Holder("nlp")), [first], NOW) == ""
    assert conflict(replace(second, nodes=frozenset(("n2",))), [first], NOW) == ""
    later = replace(second, begin=first.end, end=first.end + HOUR)
    assert conflict(later, [first], NOW) == ""
    in_weeks = replace(second, begin=first.begin + 5 * WEEK, end=first.end + 5 * WEEK)
    assert conflict(in_weeks, [first], NOW) == ""
    assert conflict(in_weeks, [replace(first, weekly=True)], NOW)


def test_whole_nodes_are_chosen_for_an_amount() -> None:
    free = {"b": ["A", "A"], "a": ["A", "A"], "c": ["B"], "d": ["A"]}
    assert choose(3, "A", free) == ["a", "b"]
    assert choose(6, "", free) == ["a", "b", "c", "d"]
    assert choose(6, "A", free) is None
