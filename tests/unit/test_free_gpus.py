"""What is called a free GPU is one that a task could get now."""

from __future__ import annotations

import pytest

from clusters.placement.fit import Mark, gpus_out, gpus_to_give
from clusters.placement.free import FreeNodes
from tests.unit.test_placement import NO_GPUS, NO_PULL, NO_START, gang, node

FOR_EACH_GPU = {
    "an open node": {},
    "GPUs in use": {"used_gpus": frozenset("02")},
    "one marked": {"marks": (Mark("gpu", "No.", "1"),)},
    "all marked": {"marks": (NO_GPUS,)},
    "nothing starts": {"marks": (NO_START,)},
    "no pulls": {"marks": (NO_PULL,)},
    "not offered": {"offered": False},
    "in quarantine": {"used_gpus": frozenset("1"), "quarantined": (frozenset("1"), frozenset())},
}


@pytest.mark.parametrize("values", FOR_EACH_GPU.values(), ids=FOR_EACH_GPU)
def test_as_many_gpus_are_free_as_tasks_with_one_of_them_start(values: dict[str, object]) -> None:
    one = node("n1", gpus="AAA", **values)
    starts = [number for number in range(1, 4) if FreeNodes([one]).place(gang(number, gpus=1)) is not None]
    assert len(gpus_to_give(one)) == len(starts)
    assert not gpus_to_give(one) & gpus_out(one)
