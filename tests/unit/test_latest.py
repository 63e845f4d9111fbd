"""The file that says how a node is now: what else may lie in its place, and clocks that are set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.metrics import latest, places, rates, ring
from jobs.metrics.layout import RingSummary

NODE, AT = "lab/n.1", 1_790_000_000
UTIL = latest.of_gpu("0", "util")


@pytest.fixture(autouse=True)
def _folder(settings: Any, tmp_path: Path) -> None:
    settings.METRICS_DIR = tmp_path


def tell(at: int, **gpus: float) -> None:
    """As the sampler does, of a node that runs nothing and of how busy these GPUs are."""
    of_node = ring.write(places.of_node(NODE), rates.OF_A_NODE, at, rates.node_values(0, [], {}, []))
    latest.write(NODE, at, of_node, {id[1:]: of_gpu(id[1:], at, util) for id, util in gpus.items()}, {})


def of_gpu(id: str, at: int, util: float) -> RingSummary:
    return ring.write(places.of_gpu(NODE, id), rates.OF_A_NODES_GPU, at, [util, 1, 1, 1, 1], rates.IDLE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"at": 17',
        "[]",
        "5",
        "null",
        '{"at": "soon", "last": {}, "known": {}, "busy": {}}',
        '{"at": 1, "last": [], "known": {}, "busy": {}}',
        '{"at": 1, "last": {"cpu": "much"}, "known": {}, "busy": {}}',
        '{"at": 1, "last": {"cpu": null}, "known": {}, "busy": {}}',
        '{"at": 1, "last": {"cpu": 1}, "known": {"cpu": null}, "busy": {}}',
        '{"at": 1, "last": {"cpu": 1}, "known": {}, "busy": {"cpu": []}}',
        f'{{"at": 1{"0" * 400}, "last": {{}}, "known": {{}}, "busy": {{}}}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_such_file_says_nothing_and_the_next_sample_takes_its_place(text: str) -> None:
    tell(AT, _0=90)
    Path(places.of_latest(NODE)).write_text(text)
    assert latest.read(NODE) == latest.Latest()
    tell(AT + 10, _0=91)
    assert latest.read(NODE).now(UTIL, AT + 10) == 91


def test_a_clock_that_steps_back_keeps_nothing_for_as_long() -> None:
    tell(AT, _0=90, _1=80)
    before = latest.read(NODE)
    assert before.now(UTIL, AT - 3600) is None, "nobody knows how old that is"
    assert before.idle_since(UTIL, AT - 3600, after=-7200) == 0
    tell(AT - 3600, _0=70)
    known = latest.read(NODE)
    assert (known.at, known.now(UTIL, AT - 3600)) == (AT - 3600, 70)
    assert known.now(latest.of_gpu("1", "util"), AT - 3600) is None, "what was not measured since goes"


def test_a_clock_a_little_ahead_of_another_s_changes_nothing() -> None:
    tell(AT, _0=90)
    assert latest.read(NODE).now(UTIL, AT - rates.FRESH) == 90
