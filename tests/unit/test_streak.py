"""How a job failed before: in the same way or not, and whether it will ever end."""

from __future__ import annotations

from jobs.planning import exits
from jobs.planning.exits import Exit
from jobs.planning.streak import End, streak

REGISTRY = "The registry nowhere.example could not be reached from {}."


def end(number: int, exit_: Exit) -> End:
    return number, exit_.code, {"role": "worker", "index": 1, "exit": exit_.to_json()}


def unreachable(node: str = "n1") -> Exit:
    return exits.from_fault("registry_unreachable", REGISTRY.format(node), permanent=False)


def test_a_first_attempt_and_a_success_say_nothing() -> None:
    assert streak([], 0) is None
    assert streak([end(1, exits.exit_for(0))], -2) is None


def test_ends_are_alike_whatever_node_they_name() -> None:
    found = streak([end(3, unreachable("n2")), end(2, unreachable("n1")), end(1, unreachable("n1"))], 0)
    assert found and (found.number, found.alike, found.is_warned, found.task) == (3, 3, True, "worker-1")
    assert found.says.startswith("The last 3 attempts failed in the same way: The registry nowhere.example could not")
    assert found.says.endswith(
        "The job is tried again, at pauses that grow to an hour, and ends with the 10th such failure."
    )


def test_another_end_between_begins_the_count_anew() -> None:
    found = streak([end(4, unreachable()), end(3, exits.node_lost("n1")), *[end(n, unreachable()) for n in (2, 1)]], 0)
    assert found and (found.alike, found.is_warned) == (1, False)
    assert found.says == "Attempt 4 failed: The registry nowhere.example could not be reached from n1."


def test_what_uses_up_retries_ends_unless_there_are_any_number() -> None:
    bad = [end(number, exits.exit_for(255, "worker-0 ended with exit code 3.")) for number in (3, 2, 1)]
    counted, endless = streak(bad, 5), streak(bad, -1)
    assert counted and not counted.endless and counted.says.endswith("until its retries are used up.")
    assert endless and endless.endless and endless.says.endswith("until somebody stops it, as its retryCount asks.")


def test_who_was_evicted_has_not_failed_however_often() -> None:
    evicted = [end(number, exits.evicted("VC a gives back 1 GPU.")) for number in (3, 2, 1)]
    found = streak(evicted, 0)
    assert found and (found.alike, found.is_warned) == (3, False)
    assert found.says == "Attempt 3 was evicted: VC a gives back 1 GPU."


def test_it_has_the_cause_that_was_read_with_the_last_end() -> None:
    number, code, kept = end(2, exits.exit_for(255, "worker-1 ended with exit code 1."))
    found = streak([(number, code, {**kept, "cause": "Python error in worker-1"}), end(1, exits.exit_for(255))], 5)
    assert found and found.cause == "Python error in worker-1"
    assert (streak([end(1, exits.exit_for(255))], 5) or found).cause == ""
