"""What real GPUs' tools said (tests/gpus), read by the program."""

from __future__ import annotations

from pathlib import Path

from clusters.nodes import gpus as of_node
from jobs.metrics import gpus
from jobs.metrics.gpus import GpuUse

SAID = Path(__file__).parents[1] / "gpus"
H200 = "h200-580.159.04"
UUID = "GPU-4c0d3cfe-78ac-abba-5992-252c04cba5eb"
TOTAL = 143771 << 20


def said(name: str) -> str:
    return (SAID / name).read_text()


def test_what_it_does_without_a_program_and_during_a_training() -> None:
    assert gpus.of_smi(said(f"{H200}.smi-idle.csv"), ("0",)) == {"0": GpuUse(0, 0, TOTAL, 77.81, 28)}
    busy = GpuUse(100, 2175 << 20, TOTAL, 674.95, 53)
    assert gpus.of_smi(said(f"{H200}.smi-busy.csv"), ("5",)) == {"5": busy}
    assert gpus.of_smi(said(f"{H200}.smi-busy.csv"), (UUID,)) == {UUID: busy}


def test_which_it_is_says_the_driver_of_this_host_and_the_container_of_another_alike() -> None:
    here, there = of_node.parse(said(f"{H200}.names.csv")), of_node.parse_listing(said(f"{H200}.listing.txt"))
    assert here == there == [{"id": "0", "type": "H200"}]
