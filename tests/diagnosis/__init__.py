"""A labelled corpus of failures, and how often the rules of the portal name their cause.

``corpus/written_first.txt`` was looked at when the first rules were written; ``held_out.txt`` was labelled before any
rule was written, and no rule was changed for it. ``produced_later.txt`` was made after these rules, which named 46 of
its 62 cases right, and they were made broader after it. ``produced_fresh.txt`` was made after that: 77 of its 83 cases
were right at first, and no wrong one certain, before the rules learnt the rest. ``unseen.txt`` came next: no rule was
changed for it. ``threads.txt`` is of what people ask about in public: of its 49 cases 34 were right at first (four
labels were put right after that run), and no wrong one certain, before the rules learnt most of the rest.

``produced``: a program printed it on a development machine. ``known``: it is written in the known format of a message,
with what stands around it. Run ``python -m tests.diagnosis``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from jobs.diagnosis.evidence import Diagnosis, Evidence, EvidenceLine, TaskEvidence

CORPUS = Path(__file__).with_name("corpus")
PARTS = ("written_first", "held_out", "produced_later", "produced_fresh", "unseen", "threads")
_BEGAN = datetime(2026, 11, 20, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """A failure; ``cause`` is the right one."""

    name: str
    cause: str
    origin: str  # produced, known
    evidence: Evidence

    def is_right(self, found: Diagnosis) -> bool:
        return found.cause == self.cause

    def is_wrong_and_sure(self, found: Diagnosis) -> bool:
        return not self.is_right(found) and found.certainty == "certain"


def cases(part: str) -> list[Case]:
    return list(_read((CORPUS / f"{part}.txt").read_text()))


def _read(text: str) -> Iterator[Case]:
    for block in text.split("\n=== "):
        head, _, body = block.removeprefix("=== ").partition("\n")
        name, cause, origin, *facts = shlex.split(head)
        values = dict(fact.split("=", 1) for fact in facts)
        if "\n--- " in f"\n{body}":
            parts = [part.partition("\n") for part in f"\n{body}".split("\n--- ")[1:]]
            tasks = [_task(*_headed(first), rest) for first, _, rest in parts]
        else:
            tasks = [_task("worker-0", values, body)]
        whole = "whole" in values
        exit_ = int(values.get("exit", "255"))
        yield Case(name, cause, origin, Evidence(exit_, values.get("sentence", ""), () if whole else tasks))


def _headed(text: str) -> tuple[str, dict[str, str]]:
    label, *facts = shlex.split(text)
    return label, dict(fact.split("=", 1) for fact in facts)


def _task(label: str, values: dict[str, str], body: str) -> TaskEvidence:
    lines = [line for line in body.split("\n") if line.strip()]
    code = int(values["code"]) if "code" in values else None
    return TaskEvidence(
        label=label,
        role=label.rpartition("-")[0],
        node=values.get("node", "gpu-03"),
        code=code,
        exit=int(values.get("exit", "255")),
        signal=values.get("signal", ""),
        oom="oom" in values,
        fault=values.get("fault", ""),
        sentence=values.get("sentence", ""),
        stopped="stopped" in values,
        ended=_BEGAN + timedelta(seconds=int(values.get("ended", "1"))),
        memory_mb=8192,
        shm_mb=64,
        lines=tuple(EvidenceLine("stderr", at, line) for at, line in enumerate(lines, 1)),
    )
