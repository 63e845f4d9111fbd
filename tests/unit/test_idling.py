"""What is kept for a job that gathers its room is not kept idle without end: pure plays with the real turns."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.placement.shares import Right
from jobs.planning.queue.idling.rule import Idling
from jobs.planning.queue.lengths import Lengths, LikeJobs
from jobs.planning.queue.sentences import of_lapse
from jobs.planning.turns import Move
from tests.helpers import in_gate
from tests.unit.queue_model import NOW, Play, shape
from tests.unit.test_adversaries import ENDLESS, cluster, job, keep_busy, used_by

DAY, STEP = 24 * 3600, 600
HOUR = 3600
LONG = (4 if in_gate() else 100) * DAY
HALF = 0.52  # as it is only seen ten minutes later that it is enough


def hog(own: int = 4, **rights: Right) -> Play:
    """Two nodes of 8 GPUs, one busy for ever by jobs of team a, for whose gang of both the other one is kept."""
    play = cluster(8, "AA", **(rights or {"a": Right(50), "b": Right(50)}))
    play.waiting = [job(at, "a", 8 // own, seconds=ENDLESS) for at in range(1, own + 1)]
    play.step()
    play.waiting = [job(100, "a", shape=shape(2, 8), seconds=10 * HOUR, since="0")]
    return play


def test_a_gang_that_can_never_gather_idles_half_of_the_time_at_most() -> None:
    """Jobs that borrow come without end, and the gang of all GPUs waits behind endless ones."""
    play, idle, longest, before = hog(), 0, 0, 0
    for at in range(LONG // STEP):
        keep_busy(play, "c", 8, 1000 * at + 1000, seconds=HOUR)
        play.step(STEP)
        before = before + 1 if 8 - used_by(play, "c") else 0
        idle, longest = idle + 8 - used_by(play, "c"), max(longest, before)
    part = idle / 8 / (LONG / STEP)
    print(f"idle: {part:.0%} of {LONG // DAY} days, {longest * STEP / HOUR:.1f} h at once")
    assert part <= HALF
    assert longest * STEP <= 2.5 * HOUR, "16 GPUs times 30 min, which is what 8 GPUs idle in an hour, once gathered"
    assert play.idlings["a"].job == 100


def test_whoever_sends_the_gang_anew_or_has_ten_of_them_idles_no_more() -> None:
    for others in (0, 9):
        play, idle = hog(), 0
        play.waiting += [job(101 + at, "a", shape=shape(2, 8), since=f"0{at}") for at in range(others)]
        for at in range(LONG // 4 // STEP):
            keep_busy(play, "c", 8, 1000 * at + 1000, seconds=HOUR)
            play.step(STEP)
            if not others:
                play.waiting = [replace(one, id=one.id + 1) if one.vc == "a" else one for one in play.waiting]
            idle += 8 - used_by(play, "c")
        part = idle / 8 / (LONG / 4 / STEP)
        print(f"idle: {part:.0%} with {others} others")
        assert part <= HALF


def test_it_starts_as_soon_as_before_where_it_gathers_in_time() -> None:
    play = cluster(8, "AA", a=Right(50), b=Right(50))
    for at in range(60):
        keep_busy(play, "c", 16, 1000 * at + 600, seconds=300)
        if at == 10:
            play.waiting.append(job(1, "a", shape=shape(2, 8), seconds=HOUR, since="0"))
            came = play.now
        play.step(30)
    assert (play.started[1] - came).total_seconds() <= 330
    assert not play.idlings, "what it idled is forgotten"


@pytest.mark.parametrize("rights", [{"a": Right(100)}, {"a": Right(100), "b": Right(0)}])
def test_a_job_that_the_guarantee_holds_alone_starts_though_its_own_team_never_rests(rights: dict[str, Right]) -> None:
    """Small jobs of a day come without end, and of the gang a quarter of an hour is known: the tenth of that would
    never do to gather 16 GPUs."""
    play = cluster(8, "AA", **rights)
    known = (("gang", 8, 900.0), ("small1", 1, 1.0 * DAY))
    play.lengths = Lengths((LikeJobs("a", name, gpus, "a"), long) for name, gpus, long in known for _ in range(100))
    play.waiting = [job(10 + at, "a", name="small", seconds=(1 + at) * DAY // 16) for at in range(16)]
    play.step()
    play.waiting.append(job(1, "a", name="gang", shape=shape(2, 8), seconds=900))
    for at in range(60 * DAY // STEP):
        keep_busy(play, "a", 17, 1000 * at + 1000, seconds=DAY)
        play.step(STEP)
        if 1 in play.started:
            break
    print(f"started after {(play.now - NOW).total_seconds() / DAY:.1f} days")
    assert 1 in play.started


def test_a_job_within_its_guarantee_never_lapses() -> None:
    """Its room comes by evictions, whatever was idle before."""
    play = cluster(8, "AA", a=Right(50), b=Right(50))
    play.waiting = [job(1, "a", 4, seconds=ENDLESS), job(2, "c", 8, seconds=ENDLESS)]
    play.step()
    play.idlings = {"a": Idling(9, (), play.now, play.now, 0, 9.0, 9.0, 9e9, 3, play.now + timedelta(days=9))}
    play.waiting = [job(10, "a", 4, since="1"), job(11, "c", 1, since="0", seconds=ENDLESS)]
    play.step(15)
    play.step(15)
    assert 10 in play.started


def test_it_says_until_when_it_was_kept_and_comes_back() -> None:
    play, said = hog(), list[str]()
    for at in range(3 * HOUR // STEP):
        keep_busy(play, "c", 8, 1000 * at + 1000, seconds=HOUR // 2)
        turn = next(turn for turn in play.step(STEP) if turn.job.id == 100)
        assert (turn.lapse is None) == (turn.move is Move.RESERVE)
        said += [each.sentence for each in turn.blockers if each.kind == "lapsed"] if turn.lapse else ["kept"]
    lapsed = (
        "Room was kept for it from 12:10 to 13:20 and idled 8 GPU-hours. Others may use it until 14:29 (UTC), then "
        "it is kept again."
    )
    assert said == [*["kept"] * 7, *[lapsed] * 7, *["kept"] * 4]


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(0, "12:00"), (1, "12:01"), (59.9, "12:01"), (60, "12:01"), (12 * HOUR - 1, "21 Nov 00:00")],
)
def test_it_is_not_kept_again_before_the_minute_that_is_told(seconds: float, says: str) -> None:
    one = Idling(1, (), NOW, NOW, 0, 9.0, 9.0, 60.0, 1, NOW + timedelta(seconds=seconds))
    assert f"Others may use it until {says} (UTC)" in of_lapse(one, "it", NOW)


@given(st.lists(st.tuples(st.integers(-3 * HOUR, 3 * HOUR), st.integers(0, 8), st.booleans()), max_size=30))
def test_no_pause_is_longer_than_what_was_idled_whatever_is_done_to_the_clock(
    story: list[tuple[int, int, bool]],
) -> None:
    now, one = NOW, Idling(1, (), NOW, NOW, 8, 8 * 1800.0)
    for passed, gpus, restarts in story:  # the clock of one process never goes back
        if restarts:  # another process reads it by a clock that was set
            one, now = one.on_clock(now + timedelta(seconds=passed), NOW), NOW
        else:
            now += timedelta(seconds=max(0, passed))
        lapsed = one.lapsed(now)
        if lapsed is not None and lapsed.until is not None:
            assert lapsed.until - now <= timedelta(seconds=lapsed.lasted) <= timedelta(seconds=8 * 1800)
        one = lapsed or one.kept(gpus, now) or Idling(1, (), now, now, max(gpus, 1), 8 * 1800.0)
        assert one.idled >= 0 and one.lasted >= 0
        assert (lapsed or one.kept(one.gpus, now)) in (one, None), "twice does no harm"
