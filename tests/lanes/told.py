"""A plugin of pytest: each failure at once, and at the end how long each file took, in files that the lane names."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

FAILURES = "TEST_FAILURES"  # in the environment of a lane: the path of the file with what failed
SECONDS = "TEST_SECONDS"  # the path of the file with the seconds of each file of tests
_seconds: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]
    _add("failed" if report.when == "call" else "error", report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _add("error", report)


def pytest_sessionfinish() -> None:
    if path := os.environ.get(SECONDS):
        Path(path).write_text(json.dumps(_seconds))


def _add(kind: str, report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.failed and (path := os.environ.get(FAILURES)):
        with open(path, "a") as file:
            file.write(f"{kind} {report.nodeid}\n")
