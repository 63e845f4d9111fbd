"""Which cause is chosen: by facts before lines, by the end of a log before its beginning, by the first task of a gang
before those that followed; and on the corpus, nearly always the right one, never a wrong one for certain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.runtime import FaultReason
from jobs.diagnosis import book
from jobs.diagnosis.evidence import Diagnosis, Evidence, EvidenceLine, TaskEvidence, from_json
from jobs.diagnosis.judge import judge
from jobs.diagnosis.rules import Rule, joined, read
from jobs.planning import exits
from jobs.planning.exits import StartFault
from tests.diagnosis import PARTS, cases

RULES = joined(book.own())
BEGAN = datetime(2026, 11, 20, tzinfo=UTC)
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
PEER = "RuntimeError: Connection closed by peer [10.0.0.1]:1234"
KEY = "Traceback (most recent call last):\nKeyError: 'lr'"


def task(label: str, text: str = "", *, after: int = 1, **values: Any) -> TaskEvidence:
    lines = tuple(EvidenceLine("stderr", at, line) for at, line in enumerate(text.split("\n"), 1)) if text else ()
    given = {"code": 1, "exit": 255, "node": "n1", "memory_mb": 4096, "shm_mb": 64, **values}
    ended = BEGAN + timedelta(seconds=after)
    return TaskEvidence(label, label.partition("-")[0], lines=lines, ended=ended, **given)


def found(*tasks: TaskEvidence, rules: tuple[Rule, ...] = RULES, **values: Any) -> Diagnosis:
    return judge(Evidence(255, "It ended.", tasks, **values), rules)


@pytest.mark.parametrize("part", PARTS)
def test_the_corpus_is_named_right_and_nothing_wrong_is_called_certain(part: str) -> None:
    told = [(case, judge(case.evidence, RULES)) for case in cases(part)]
    wrong = [f"{case.name}: {one.cause}" for case, one in told if not case.is_right(one)]
    assert len(wrong) <= 0.05 * len(told), wrong
    assert [case.name for case, one in told if case.is_wrong_and_sure(one)] == []


def test_the_corpus_is_large_and_every_case_is_there_once() -> None:
    names = [case.name for part in PARTS for case in cases(part)]
    assert len(names) >= 150 and len(set(names)) == len(names)


def test_the_rules_of_the_release_can_be_read() -> None:
    assert [problem for one in book.own() for problem in one.problems] == []
    assert len(RULES) == sum(len(one.rules) for one in book.own()), "an id is there twice"


def test_a_fact_of_the_engine_counts_more_than_a_line() -> None:
    one = found(task("w-0", "ValueError: x", code=137, exit=196, oom=True, signal="SIGKILL"))
    assert (one.cause, one.certainty) == ("memory", "certain")


@pytest.mark.parametrize("reason", [*(one for one in FaultReason if one is not FaultReason.WITHDRAWN), *StartFault])
def test_every_refused_start_has_a_cause_with_a_name(reason: str) -> None:
    """A start that was withdrawn has not failed."""
    ended = exits.from_fault(reason, "The engine refused.", permanent=False)
    diagnosis = found(task("worker-0", code=None, exit=ended.code, fault=reason))
    assert diagnosis.rule and diagnosis.name


def test_an_error_after_which_the_program_went_on_is_not_the_cause() -> None:
    went_on = "FileNotFoundError: [Errno 2] No such file or directory: '/cache'\n" + "step\n" * 80 + KEY
    assert found(task("w-0", went_on)).cause == "python-exception"


def test_a_line_far_from_the_end_is_less_sure() -> None:
    near, far = (found(task("w-0", "x: Syntax error: end of file\n" + "step\n" * more)) for more in (1, 80))
    assert (near.certainty, far.certainty) == ("certain", "likely")


def test_of_a_gang_the_first_that_failed_is_the_cause() -> None:
    one = found(task("w-1", KEY, after=3), task("w-0", "x: Syntax error: oh", after=2))
    assert (one.cause, one.task) == ("shell-syntax", "w-0")


def test_who_only_lost_its_peers_is_not_the_cause_though_its_clock_says_first() -> None:
    one = found(task("w-0", PEER, after=1), task("w-1", KEY, after=3))
    assert (one.task, one.followed) == ("w-1", ("w-0",))


def test_a_task_that_hung_after_its_error_is_the_cause_where_all_others_followed() -> None:
    one = found(task("w-0", PEER, after=1), task("w-1", ECC, after=5, stopped=True, node="n2", exit=-7400))
    assert (one.cause, one.task, one.certainty) == ("gpu-broken", "w-1", "possible")


def test_where_all_followed_it_says_so_and_is_not_sure() -> None:
    one = found(task("w-0", PEER), task("w-1", PEER))
    assert (one.cause, one.certainty) == ("peer-lost", "possible")


def test_what_no_rule_knows_has_the_last_lines_of_the_task_that_decided_it() -> None:
    one = found(task("w-0", "odd", exit=1), task("w-1", "\n".join(map(str, range(50))), exit=1), decided_by="w-1")
    assert (one.rule, one.cause, one.says) == ("", "unknown", "It ended.")
    assert [line["text"] for line in one.lines] == [str(at) for at in range(38, 50)]


def test_the_proof_is_marked_among_the_lines_around_it() -> None:
    one = found(task("w-0", "\n".join([*map(str, range(50)), ECC, "bye"])))
    assert [line["number"] for line in one.lines if line["mark"]] == [51]
    assert one.lines[-1]["text"] == "bye" and len(one.lines) <= 13


def test_a_broken_gpu_makes_its_node_suspect() -> None:
    assert found(task("w-0", ECC, node="n7")).suspects == ("n7",)


@pytest.mark.parametrize(
    ("nodes", "suspects"), [(("n1", "n1", "n2"), ("n1",)), (("n1", "n2", "n2"), ()), (("n1",) * 3, ())]
)
def test_what_programs_do_too_needs_several_tasks_of_one_node_alone(
    nodes: tuple[str, ...], suspects: tuple[str, ...]
) -> None:
    illegal = "RuntimeError: CUDA error: an illegal memory access was encountered"
    texts = [illegal, illegal, PEER] if nodes[2] == "n2" and nodes[0] == nodes[1] else [illegal] * 3
    tasks = [task(f"w-{at}", text, node=node) for at, (text, node) in enumerate(zip(texts, nodes, strict=True))]
    assert found(*tasks).suspects == suspects


def test_the_button_asks_for_half_as_much_memory_again_and_for_more_than_the_peak() -> None:
    short = task("w-0", code=137, exit=196, oom=True, memory_mb=8192)
    assert found(short).actions[0] == {"label": "Retry with 12 GB", "change": {"memoryMB": {"w": 12288}}}
    assert found(replace(short, peak_mb=16384)).actions[0]["change"] == {"memoryMB": {"w": 20480}}


def test_no_button_asks_for_more_than_any_node_has() -> None:
    short = task("w-0", code=137, exit=196, oom=True, memory_mb=8192)
    assert found(short, most_memory_mb=10000).actions[0]["change"] == {"memoryMB": {"w": 10000}}
    assert found(short, most_memory_mb=8192).actions == ()


def test_shared_memory_and_other_nodes_have_buttons_too() -> None:
    shm = found(task("w-0", "ERROR: insufficient shared memory (shm)"))
    assert shm.actions[0]["change"] == {"shmMB": {"w": 1024}}
    assert found(task("w-0", ECC)).actions[0] == {"label": "Retry elsewhere than n1", "change": {"avoidNodes": ["n1"]}}


def test_a_peak_at_the_limit_makes_a_kill_a_lack_of_memory() -> None:
    killed = task("w-0", code=137, exit=137, signal="SIGKILL")
    assert found(killed).cause == "killed-outside"
    assert found(replace(killed, peak_mb=4090.0)).cause == "memory"


def test_when_time_is_over_what_was_found_until_then_counts() -> None:
    evidence = Evidence(255, "It ended.", [task("w-0", KEY)])
    assert judge(evidence, RULES, lambda: True).cause == "unknown"


def test_a_diagnosis_of_a_newer_release_is_read() -> None:
    one = found(task("w-0", KEY))
    kept = {"rule": one.rule, "cause": "c", "name": "n", "whose": "node", "certainty": "likely", "says": "", "new": 1}
    read_again = from_json(kept)
    assert read_again is not None and (read_again.whose, read_again.lines) == ("node", ())


OWN = """
rules:
  - id: mine
    name: License missing
    whose: platform
    log: "no license for {what}"
    says: "{task} got no license for {what} on {node}, {nothing}."
remove: [python-exception, python-exception-other]
"""


def test_a_rule_of_an_admin_is_added_and_takes_others_out() -> None:
    rules = joined([*book.own(), read(OWN)])
    assert found(task("w-0", "no license for cplex"), rules=rules).says == "w-0 got no license for cplex on n1, ?."
    assert found(task("w-0", KEY), rules=rules).cause == "exit-code"


@pytest.mark.parametrize(("says", "is_open"), [("Ask for {what}.", False), ("Ask {node}'s admin for {task}.", True)])
def test_an_advice_with_parts_of_a_log_is_for_those_who_may_read_it(says: str, is_open: bool) -> None:
    text = OWN.replace("remove:", f'    next: "{says}"\nremove:')
    one = found(task("w-0", "no license for cplex"), rules=joined([*book.own(), read(text)]))
    assert one.advice in ("Ask for cplex.", "Ask n1's admin for w-0.")
    assert one.as_read(may_read_logs=False).advice == (one.advice if is_open else "")


def test_a_rule_of_an_admin_replaces_one_of_the_release() -> None:
    text = OWN.replace("id: mine", "id: gpu-broken").replace("no license for {what}", "uncorrectable ECC error")
    assert found(task("w-0", ECC), rules=joined([*book.own(), read(text)])).name == "License missing"


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("rules: [", 1, 9, "no YAML"),
        ("- a", 1, 1, "rules and remove"),
        ("rules:\n  - id: X", 2, 9, "should match pattern"),
        (OWN.replace("whose: platform", "whose: us"), 5, 12, "Input should be"),
        (OWN.replace('{what}"', '{what}{more}"', 1), 6, 10, "need some text between"),
        (OWN.replace("no license for {what}", "{a}", 1), 6, 10, "character 1"),
        (OWN + "  - more", 9, 3, "no YAML"),
        (OWN.replace("    log:", "    logs:"), 6, 11, "Extra inputs"),
        (OWN.replace('    log: "no license for {what}"\n', ""), 3, 5, "no condition"),
        ("rules: &a\n  - *a", 1, 1, "nested too deep or has an alias"),
        ("remove: 3", 1, 9, "list of ids"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(text: str, line: int, column: int, says: str) -> None:
    problem = read(text).problems[0]
    assert (problem.line, problem.column) == (line, column) and says in problem.message, problem


def test_the_other_rules_of_a_file_with_a_wrong_one_are_in_force() -> None:
    text = OWN.replace("rules:\n", "rules:\n  - id: bad\n")
    assert [rule.id for rule in read(text).rules] == ["mine"]


def test_the_example_of_the_documents_can_be_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run" / "diagnosis-rules.md").read_text()
    example = read(page.partition("```yaml\n")[2].partition("```")[0])
    assert (example.problems, [rule.id for rule in example.rules], example.remove) == (
        (),
        ["license-server"],
        ("nan-loss",),
    )


def test_the_documents_name_every_key_of_a_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run" / "diagnosis-rules.md").read_text()
    assert [key for key in Rule.model_fields if f"`{key}`" not in page] == []
