"""The text of ``/metrics`` is what ``prometheus_client`` would write."""

from __future__ import annotations

import math

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from portal.metrics.text import Family, written

NUMBERS = (0.0, 1.0, -0.5, 0.1 + 0.2, 123456.0, 1234567.0, 2.0**40, 1e-9, 1e300, math.inf)


@pytest.mark.parametrize(
    ("labels", "keys"),
    [
        ((), [()]),
        (("node",), [("gpu-01",), ('a"b',), ("c\\d",), ("e\nf",), ("ü %s {}",), ("",)]),
        (("node", "gpu"), [("n1", "0"), ("n1", "1"), ("n2", 'GPU-"x"')]),
    ],
)
def test_it_is_byte_for_byte_the_same(labels: tuple[str, ...], keys: list[tuple[str, ...]]) -> None:
    values = {key: NUMBERS[at % len(NUMBERS)] for at, key in enumerate(keys)}
    families = [Family("longshore_x", "What it\\is\nabout", labels, values)]
    families += [Family(f"longshore_{at}", "A number", (), {(): number}) for at, number in enumerate(NUMBERS)]
    assert written(families) == _by_the_library(families)


def _by_the_library(families: list[Family]) -> bytes:
    class All(Collector):
        def collect(self) -> list[Metric]:
            made: list[Metric] = []
            for family in families:
                gauge = GaugeMetricFamily(family.name, family.says, labels=family.labels)
                for key, value in family.values.items():
                    gauge.add_metric(key, value)
                made.append(gauge)
            return made

    registry = CollectorRegistry(auto_describe=False)
    registry.register(All())
    return generate_latest(registry)
