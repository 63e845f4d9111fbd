"""What virtual clusters have a right to: named cases."""

from __future__ import annotations

from math import inf

import pytest

from clusters.placement.shares import Quota, Right, above_ceiling, is_within, pool_totals, quotas, share
from tests.unit.queue_model import node

POOL = {"cpu": 16, "memory": 16000, "gpu": 8, "gpu:A": 6, "gpu:B": 2}
REST = Right(0, 100, has_rest=True)


def test_the_pool_are_the_nodes_that_are_not_dedicated_healthy_or_not() -> None:
    nodes = [node("n1", "AA"), node("n2", "AB", offered=False), node("n3", "A", dedicated_to="c")]
    pool, dedicated = pool_totals(nodes)
    assert pool == {"cpu": 16, "memory": 16000, "gpu": 4, "gpu:A": 3, "gpu:B": 1}
    assert dedicated == {"c": {"cpu": 8, "memory": 8000, "gpu": 1, "gpu:A": 1}}


QUOTAS = {
    "percents are of each resource and each type of GPU": (
        Right(50, 50), {"cpu": 8, "memory": 8000, "gpu": 4, "gpu:A": 3, "gpu:B": 1},
        {"cpu": 8, "memory": 8000, "gpu": 4, "gpu:A": 3, "gpu:B": 1},
    ),
    "GPUs as a number are of any type": (
        Right(50, 100, gpu_guarantee=3, gpu_ceiling=5), {"cpu": 8, "memory": 8000, "gpu": 3},
        {"cpu": 16, "memory": 16000, "gpu": 5},
    ),
    "the whole cluster is no ceiling": (Right(0, 100), dict.fromkeys(POOL, 0), {}),
    "what is promised to nobody is for default": (REST, {what: whole * 0.75 for what, whole in POOL.items()}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", QUOTAS)
def test_a_right_in_amounts(case: str) -> None:
    right, guarantee, ceiling = QUOTAS[case]
    found = quotas({"vc": right, "other": Right(25, 25)}, POOL, {})["vc"]
    assert (found.guarantee, found.ceiling) == (guarantee, ceiling)


def test_dedicated_nodes_come_on_top_of_guarantee_and_ceiling() -> None:
    own = {"cpu": 8, "memory": 8000, "gpu": 4}
    found = quotas({"vc": Right(50, 50)}, POOL, {"vc": own})["vc"]
    assert found.guarantee["gpu"] == found.ceiling["gpu"] == 8
    assert quotas({"default": REST, "vc": Right(0, 0)}, POOL, {"vc": own})["default"].guarantee == POOL


SHARES = {
    "nothing is used": ({}, {"cpu": 4, "gpu": 2}, 0),
    "the dominant resource counts": ({"cpu": 1, "gpu": 1}, {"cpu": 4, "gpu": 2}, 0.5),
    "more than is promised": ({"gpu": 6}, {"gpu": 2}, 3),
    "what nobody promised": ({"cpu": 1}, {"cpu": 0}, inf),
    "a promise of nothing that is not used": ({"cpu": 1, "gpu": 0}, {"cpu": 4, "gpu": 0}, 0.25),
    "a scarce type counts where types are promised": ({"gpu": 2, "gpu:A": 2}, {"gpu": 8, "gpu:A": 2}, 1),
    "types of GPUs do not count where the number does": ({"gpu": 1, "gpu:A": 1}, {"gpu": 2}, 0.5),
}


@pytest.mark.parametrize("case", SHARES)
def test_a_share(case: str) -> None:
    use, guarantee, expected = SHARES[case]
    assert share(use, Quota(guarantee)) == expected


WITHIN = {
    "it stays below": ({"gpu": 1}, {"gpu": 1}, {"gpu": 2, "cpu": 4}, True),
    "it goes beyond": ({"gpu": 2}, {"gpu": 1}, {"gpu": 2, "cpu": 4}, False),
    "only what it asks for counts": ({"gpu": 9}, {"cpu": 1}, {"gpu": 2, "cpu": 4}, True),
    "nothing is promised": ({}, {"cpu": 1}, {}, False),
    "one type is used up": ({"gpu": 1, "gpu:A": 1}, {"gpu": 1, "gpu:A": 1}, {"gpu": 4, "gpu:A": 1}, False),
    "a type that is open": ({"gpu": 1, "gpu:A": 1}, {"gpu": 1}, {"gpu": 4, "gpu:A": 1}, True),
    "a third of ten is three": ({"gpu": 3.0}, {"gpu": 1}, {"gpu": 3.3333}, False),
}


@pytest.mark.parametrize("case", WITHIN)
def test_it_is_within(case: str) -> None:
    use, more, guarantee, expected = WITHIN[case]
    assert is_within(use, more, Quota(guarantee)) is expected


def test_a_ceiling_names_what_would_be_above_it() -> None:
    quota = Quota(ceiling={"cpu": 4, "gpu": 2})
    assert above_ceiling({"cpu": 4, "gpu": 1}, {"cpu": 1, "gpu": 1}, quota) == ["cpu"]
    assert above_ceiling({"cpu": 99}, {"cpu": 99}, Quota()) == []
