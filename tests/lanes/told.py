"""A plugin of pytest: it writes each failure at once to the file that the lane names."""

from __future__ import annotations

import os

import pytest

FAILURES = "TEST_FAILURES"  # in the environment of a lane: the path of that file


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _add("failed" if report.when == "call" else "error", report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _add("error", report)


def _add(kind: str, report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.failed and (path := os.environ.get(FAILURES)):
        with open(path, "a") as file:
            file.write(f"{kind} {report.nodeid}\n")
