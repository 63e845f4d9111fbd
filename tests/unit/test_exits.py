from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.engines import runtime
from clusters.engines.runtime import ContainerStatus, FaultReason, Phase, read_script
from jobs.planning import exits, retries
from jobs.planning.exit_table import TABLE, Reaction
from jobs.planning.exits import Exit
from jobs.planning.retries import RetryDecision

OURS = {-7501, -7502}


def ended(code: int | None, *, oom: bool = False) -> ContainerStatus:
    return ContainerStatus("1", "c", Phase.EXITED, {}, exit_code=code, oom_killed=oom)


def decide(code: int, *, retry_count: int = 0, done: int = 0, random_unit: float = 0.5, **more: bool) -> RetryDecision:
    return retries.decide_retry(
        exits.exit_for(code, **more),
        retry_count=retry_count,
        user_retries=done,
        platform_retries=done,
        resource_retries=done,
        random_unit=random_unit,
    )


def test_the_table_has_every_code_of_v1() -> None:
    positive = {0, 130, 132, 134, 135, 136, 137, 139, 141, 143, 154, 193, 196, 198, 255, 256}
    launched = {-7100, -7101, -7102, -7103, -7110, -7111, -7112, -7113, *range(-7126, -7119), *range(-7154, -7149)}
    submitted = {*range(-7203, -7199), *range(-7252, -7249), *range(-7303, -7299), *range(-7353, -7349)}
    assert set(TABLE) - OURS == positive | launched | submitted | {-7400, -8000}
    assert {code for code in TABLE if -7600 < code <= -7500} == OURS


def test_every_entry_uses_the_words_of_v1() -> None:
    actors = {"USER_CONTAINER", "USER_SUBMISSION", "USER_STOP", "USER_RETRY", "RESOURCE_ALLOCATION_TIMEOUT"}
    actors |= {"PAI_RUNTIME", "PAI_LAUNCHER", "PAI_YARN", "PAI_DOCKER", "PAI_OS", "UNKNOWN"}
    stages = {"SUBMITTING", "ALLOCATING", "LAUNCHING", "RUNNING", "COMPLETING", "UNKNOWN"}
    for code, spec in TABLE.items():
        assert {spec.issuer, spec.causer} <= actors and spec.stage in stages
        assert spec.repro and (spec.reason is None) == (code == 0)


def test_the_classes_are_those_of_v1() -> None:
    wanted = {
        0: ("USER_SUCCESS", "NEVER_RETRY", "UNKNOWN"),
        137: ("PLATFORM_FAILURE", "ALWAYS_RETRY", "TRANSIENT_NORMAL"),
        196: ("USER_FAILURE", "NEVER_RETRY", "NON_TRANSIENT"),
        255: ("UNKNOWN_FAILURE", "RETRY_TO_MAX", "UNKNOWN"),
        -7112: ("RESOURCE_ALLOCATION_TIMEOUT", "ALWAYS_BACKOFF_RETRY", "TRANSIENT_CONFLICT"),
        -7351: ("USER_STOP", "NEVER_RETRY", "NON_TRANSIENT"),
    }
    specs = {code: exits.spec_for(code) for code in wanted}
    assert {code: (spec.type, spec.reaction, spec.behavior) for code, spec in specs.items()} == wanted


def test_a_job_out_of_time_is_never_tried_again_whatever_its_retry_count() -> None:
    exit_ = exits.out_of_time(5400)
    assert exit_.sentence == "The job ran for 1 h 30 min, which is all that its maxRunSeconds allow."
    assert (exit_.spec.phrase, exit_.blame) == ("JOB_RUN_TIME_EXCEEDED", "your job")
    assert not any(decide(-7501, retry_count=count, permanent=exit_.permanent).retry for count in (-2, -1, 0, 5))


def test_an_unlisted_code_gets_the_template_with_its_own_number() -> None:
    wanted = {3: 256, 257: 256, -1: -8000, -9999: -8000}
    specs = {code: exits.spec_for(code) for code in wanted}
    assert {code: (spec.code, spec.phrase) for code, spec in specs.items()} == {
        code: (code, TABLE[template].phrase) for code, template in wanted.items()
    }


def test_v1_reads_an_entry_as_json() -> None:
    entry = json.loads(json.dumps(exits.as_v1(exits.spec_for(196))))
    assert list(entry) == [
        "code", "phrase", "issuer", "causer", "type", "stage", "behavior", "reaction", "reason", "repro", "solution",
    ]  # fmt: skip
    assert entry["reaction"] == "NEVER_RETRY" and len(entry["solution"]) == 2
    assert exits.as_v1(exits.spec_for(0))["solution"] is None


def test_any_other_code_of_the_command_is_255_and_kept() -> None:
    codes = (1, 2, 3, 125, 126, 127, 128, 129, 138, 140, 154, 193, 196, 198, 254)
    found = {code: exits.classify(ended(code), 100) for code in codes}
    assert {code: (one.code, one.raw_code, one.blame, one.oom) for code, one in found.items()} == {
        code: (255, code, "your job", False) for code in codes
    }
    assert [one.sentence for code, one in found.items() if f"exit code {code}" not in one.sentence] == []


def test_a_container_lost_with_its_host_is_the_clusters_fault_and_not_a_255_of_the_command() -> None:
    lost, own = exits.classify(replace(ended(None), lost=True), 100), exits.classify(ended(255), 100)
    assert (lost.code, lost.raw_code, lost.blame, lost.spec.reaction) == (154, None, "the cluster", "ALWAYS_RETRY")
    assert "or its start was cut off" in lost.sentence, (
        "a portal that is killed in the middle of it leaves the same code"
    )
    assert (own.code, own.raw_code, own.blame) == (255, 255, "your job") and "exit code 255" in own.sentence


def test_signals_keep_their_code_and_name() -> None:
    found = {code: exits.classify(ended(code), 100) for code in exits.KEPT_SIGNALS}
    assert {code: (one.code, one.raw_code) for code, one in found.items()} == {code: (code, code) for code in found}
    assert [one for one in found.values() if not (one.signal and one.spec.phrase.endswith(one.signal))] == []


def test_a_kill_without_shortage_of_memory_is_the_clusters_fault() -> None:
    exit_ = exits.classify(ended(137), 100)
    assert exit_.blame == "the cluster" and exit_.spec.reaction is Reaction.ALWAYS_RETRY


def test_out_of_memory_is_certain_when_the_engine_killed_the_command() -> None:
    exit_ = exits.classify(ended(137, oom=True), 65536, label="worker-1")
    assert (exit_.code, exit_.oom, exit_.certainty, exit_.signal) == (196, True, "certain", "SIGKILL")
    assert exit_.sentence == "worker-1 ran out of memory. It used all of its 64 GB."


def test_out_of_memory_is_certain_when_only_the_start_script_noticed() -> None:
    assert read_script(ended(runtime.KILLED_FOR_MEMORY), None) == ended(137, oom=True)


def test_a_code_of_the_command_itself_is_read_from_the_start_script() -> None:
    assert {ours: read_script(ended(ours), None) for ours in runtime.OWN_CODES} == {
        ours: replace(ended(code), by_itself=True) for ours, code in runtime.OWN_CODES.items()
    }


@pytest.mark.parametrize(("written", "own"), [("0 told", 0), ("255 told", 255), ("225", 225), (None, 0)])
def test_a_command_that_ends_by_itself_once_it_was_told_was_ended_from_outside(written: str | None, own: int) -> None:
    told = ended(runtime.TOLD_TO_END)
    from_outside = own if own == runtime.TOLD_TO_END else runtime.TERMINATED
    assert read_script(told, written) == ended(from_outside)
    assert read_script(told, written, told_inside=True) == ended(own), "by `kill 0`, that end is its own"
    assert exits.classify(ended(runtime.TERMINATED), 100).spec.reaction is Reaction.ALWAYS_RETRY


def test_a_kill_inside_the_container_is_the_jobs_own_failure_and_not_tried_again() -> None:
    for code, signal in ((137, "SIGKILL"), (143, "SIGTERM")):
        exit_ = exits.classify(replace(ended(code), by_itself=True), 100)
        assert (exit_.code, exit_.raw_code, exit_.signal, exit_.oom) == (196, code, signal, False)
        assert (exit_.blame, exit_.spec.reaction) == ("your job", Reaction.NEVER_RETRY)


def test_a_port_that_was_taken_is_the_clusters_fault() -> None:
    exit_ = exits.classify(read_script(ended(runtime.FOUND_PORT_TAKEN), ""), 100)
    assert (exit_.code, exit_.blame, exit_.fault, exit_.raw_code) == (-7103, "the cluster", "port_taken", None)
    assert exit_.spec.reaction is Reaction.ALWAYS_RETRY


def test_a_code_of_ours_that_is_the_commands_own_is_kept() -> None:
    found = {code: exits.classify(read_script(ended(code), str(code)), 100) for code in runtime.OUR_CODES}
    assert {code: (one.code, one.raw_code, one.blame, one.oom) for code, one in found.items()} == {
        code: (255, code, "your job", False) for code in runtime.OUR_CODES
    }


# What the engine and what the start script say, and what is believed: the code, and whether the container is lost.
BELIEVED: dict[tuple[int | None, str | None], tuple[int | None, bool]] = {
    (0, "5"): (5, False),
    (0, "0"): (0, False),
    (0, ""): (None, True),
    (0, "0 told"): (143, False),
    (None, "0 told"): (143, False),
    (0, None): (0, False),
    (None, "3"): (3, False),
    (None, ""): (None, True),
    (None, None): (None, True),
}


def test_an_engine_that_died_is_believed_less_than_the_start_script() -> None:
    found = {}
    for engine, written in BELIEVED:
        status = replace(ended(0), exit_code=engine, lost=engine is None)
        read = read_script(status, written)
        assert read == replace(status, exit_code=read.exit_code, lost=read.lost), "the rest is the engine's"
        found[engine, written] = (read.exit_code, read.lost)
    assert found == BELIEVED


def test_out_of_memory_is_likely_when_a_child_was_killed_and_the_command_failed() -> None:
    exit_ = exits.classify(ended(1, oom=True), 512)
    assert (exit_.code, exit_.raw_code, exit_.certainty) == (196, 1, "likely")


def test_a_command_that_ends_well_in_spite_of_a_killed_child_succeeds() -> None:
    exit_ = exits.classify(ended(0, oom=True), 512)
    assert (exit_.code, exit_.raw_code, exit_.oom, exit_.blame) == (0, 0, True, "nobody")


def test_an_end_without_a_code_is_the_clusters_fault() -> None:
    assert exits.classify(ended(None), 100).code == 154


# A fault and whether it is permanent; the code of its exit, and whether the start is tried again.
REFUSED = {
    (FaultReason.IMAGE_MISSING, True): (255, False),
    (FaultReason.IMAGE_DENIED, True): (255, False),
    (FaultReason.IMAGE_NAME, False): (255, False),
    (FaultReason.COMMAND_MISSING, True): (255, False),
    (FaultReason.REGISTRY_UNREACHABLE, False): (193, True),
    (FaultReason.PULL_FAILED, False): (193, True),
    (FaultReason.NODE_BROKEN, False): (193, True),
    (FaultReason.REFUSED, False): (193, True),
    (FaultReason.REFUSED, True): (193, False),
    (FaultReason.PORT_TAKEN, False): (-7103, True),
    (FaultReason.GPU_MISSING, False): (-7150, True),
    (FaultReason.GONE, False): (-7110, True),
    (FaultReason.GONE, True): (-7110, True),
    (FaultReason.UNREACHABLE, False): (-7111, True),
    (FaultReason.WITHDRAWN, False): (-7400, False),
}


def test_a_refused_start_is_tried_again_unless_it_cannot_help() -> None:
    none_yet = {"user_retries": 0, "platform_retries": 0, "resource_retries": 0, "random_unit": 0.0}
    found = set()
    for reason, permanent in REFUSED:
        exit_ = exits.from_fault(reason, "It was refused.", permanent)
        for count in (0, 5, -1, -2):
            decision = retries.decide_retry(exit_, retry_count=count, **none_yet)  # type: ignore[arg-type]
            found.add((reason, permanent, exit_.fault, exit_.sentence, exit_.code, decision.retry))
    assert found == {
        (reason, permanent, reason, "It was refused.", code, retry)
        for (reason, permanent), (code, retry) in REFUSED.items()
    }


def test_what_is_never_tried_again_tells_users_what_to_do_instead() -> None:
    permanent = {reason: exit_ for reason in FaultReason if (exit_ := exits.from_fault(reason, "", False)).permanent}
    unsaid = [
        reason
        for reason, exit_ in permanent.items()
        if exit_.remedy in ("", exits.exit_for(exit_.code, permanent=True).remedy)
    ]
    assert permanent and unsaid == []


def test_every_fault_of_the_engine_has_a_code() -> None:
    assert {exits.from_fault(reason, "", False).code for reason in FaultReason} <= set(TABLE)
    assert exits.from_fault("of a newer release", "x", False).code == 193


def test_a_permanent_end_tells_v1_that_no_retry_follows() -> None:
    assert exits.as_v1(exits.from_fault("image_missing", "x", True).spec)["reaction"] == "NEVER_RETRY"


def test_the_named_ends_carry_their_codes() -> None:
    named = [exits.container_lost(), exits.node_lost("n1"), exits.job_stopped("mira")]
    named += [exits.task_stopped(), exits.never_fits("No node has 9 GPUs.")]
    assert [exit_.code for exit_ in named] == [-7110, -7111, -7351, -7400, -7251]
    assert all(exit_.sentence.endswith(".") for exit_ in named)


@given(
    st.builds(
        Exit,
        code=st.integers(-9000, 300),
        sentence=st.text(),
        raw_code=st.none() | st.integers(0, 255),
        oom=st.booleans(),
        permanent=st.booleans(),
    )
)
def test_an_end_survives_json(exit_: Exit) -> None:
    assert Exit.from_json(json.loads(json.dumps(exit_.to_json()))) == exit_


def test_an_end_kept_by_another_release_can_be_read() -> None:
    assert Exit.from_json({"code": 3, "unheard_of": 1}) == Exit(code=3, sentence="")


def test_success_and_ends_that_would_repeat_are_not_tried_again() -> None:
    pairs = [(code, retry_count) for code in (0, 196, 139, -7351, -7400, -7251) for retry_count in (0, 1, 5, -1)]
    assert [(code, count) for code, count in pairs if decide(code, retry_count=count).retry] == []


def test_user_failures_are_tried_again_as_often_as_asked() -> None:
    asked = [decide(255, retry_count=2, done=done) for done in range(4)]
    assert [d.retry for d in asked] == [True, True, False, False]
    assert [d.counter for d in asked] == ["user", "user", None, None]
    assert asked[1].reason.startswith("Retry 2 of 2")
    assert not decide(255, retry_count=0).retry
    assert decide(255, retry_count=-1, done=10_000).retry


def test_minus_two_goes_on_for_ever_even_after_success_but_not_after_a_stop() -> None:
    assert all(decide(code, retry_count=-2, done=99).retry for code in (0, 196, 139, 255, 137))
    assert not decide(-7351, retry_count=-2).retry
    assert not decide(255, retry_count=-2, permanent=True).retry


def test_the_clusters_faults_are_tried_again_and_cost_no_retry() -> None:
    assert decide(-7111, done=10_000) == RetryDecision(
        True, "platform", 60.0, "Tried again in 60 s. This does not use up a retry."
    )
    assert decide(-7112, done=10_000, random_unit=0.5).counter == "resource"


def test_the_first_retry_is_at_once_and_later_ones_wait_longer() -> None:
    platform = [decide(137, done=done).delay for done in range(9)]
    assert platform == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert [decide(255, retry_count=-1, done=done).delay for done in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert [decide(-7252, done=done).delay for done in range(8)] == [10, 20, 40, 80, 160, 320, 600, 600]


@given(
    code=st.sampled_from(sorted(TABLE)),
    retry_count=st.integers(-2, 5),
    done=st.integers(0, 2**31),
    random_unit=st.floats(0, 1, exclude_max=True),
)
def test_a_decision_is_always_whole(code: int, retry_count: int, done: int, random_unit: float) -> None:
    decision = decide(code, retry_count=retry_count, done=done, random_unit=random_unit)
    assert decision.retry == (decision.counter is not None)
    assert 0 <= decision.delay <= 600 and decision.reason.endswith((".", ")."))
    assert decision.retry or decision.delay == 0
