"""A real cluster of two nodes for the tests of this folder. Whoever breaks something puts it right again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.kubernetes_bed import KubernetesBed
from tests.helpers import need


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("kubernetes")


@pytest.fixture(scope="session")
def cluster() -> Iterator[KubernetesBed]:
    """Nodes n1 and n2, each with two pretended GPUs and the image longshore/sample:1."""
    need("kubernetes")
    bed = KubernetesBed()
    try:
        bed.up(2)
        yield bed
    finally:
        bed.stop()
