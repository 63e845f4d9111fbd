"""The pages about extras and virtual clusters say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from clusters.placement.shares import USUAL_GRACE
from jobs.config.extras import Extras
from jobs.config.spec import read_config
from portal.vcs.api import VcRequest

DOCS = Path(__file__).parents[2] / "docs"


def keys_of(page: str) -> set[str]:
    """The names in the first column of its first table."""
    table = re.search(r"^\|.*?\n\n", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\| (`[^|]+?) \|", table[0] if table else "", re.MULTILINE)
    return {name for line in lines for name in re.findall(r"`(\w+)`", line)}


def test_the_page_of_extras_names_every_one_that_is_known() -> None:
    assert keys_of("use/extras.md") == {field.alias for field in Extras.model_fields.values()} | {"secrets", "sweep"}


def test_its_example_is_a_valid_config() -> None:
    [example] = re.findall(r"```jsonc\n(.*?)```", (DOCS / "use" / "extras.md").read_text(), re.DOTALL)
    asked = read_config(example).asked
    assert (asked.priority, asked.max_run_seconds, len(asked.depends_on)) == (-10, 3600, 2)
    assert asked.grace == USUAL_GRACE, "more is refused where no admin has allowed it"


def test_the_page_of_virtual_clusters_names_every_field_beside_those_of_v1() -> None:
    of_v1 = {"vcCapacity", "vcMaxCapacity", "description", "externalName"}
    assert keys_of("run/virtual-clusters.md") == {field.alias for field in VcRequest.model_fields.values()} - of_v1
