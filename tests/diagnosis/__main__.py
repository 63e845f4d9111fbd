"""Prints how often the rules name the right cause, for each part of the corpus: ``python -m tests.diagnosis``."""

from __future__ import annotations

from collections import Counter

from jobs.diagnosis import book
from jobs.diagnosis.judge import judge
from jobs.diagnosis.rules import joined
from tests.diagnosis import PARTS, cases


def main() -> None:
    rules = joined(book.own())
    print(f"{len(rules)} rules")
    for part in PARTS:
        found = [(case, judge(case.evidence, rules)) for case in cases(part)]
        right = sum(case.is_right(one) for case, one in found)
        sure = Counter(one.certainty for case, one in found if not case.is_right(one))
        print(f"{part}: {right} of {len(found)} right ({100 * right / len(found):.1f} %), wrong: {dict(sure)}")
        for case, one in found:
            if not case.is_right(one):
                print(f"  {case.name}: {case.cause}, but the rules say {one.cause} ({one.certainty})")


main()
