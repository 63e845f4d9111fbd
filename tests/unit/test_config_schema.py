"""The schema that the editor completes from and explains with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobs.config.editing.schema import HELP, config_schema


def fields(part: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in part.get("properties", {}).items():
        yield place + name, each
        yield from fields(each, f"{place}{name}.")
        yield from fields(each.get("items", {}), f"{place}{name}.")


def test_every_field_has_a_sentence_of_help_and_no_sentence_is_left_over() -> None:
    found = dict(fields(config_schema()))
    without = [name for name, each in found.items() if "description" not in each and not name.startswith("jobEnvs.")]
    assert without == [] and sorted(set(HELP) - set(found)) == []


def test_it_has_no_references_and_the_words_of_v1() -> None:
    role = config_schema()["properties"]["taskRoles"]["items"]
    assert role["properties"]["memoryMB"]["minimum"] == 100 and role["required"] == ["name", "command"]
    assert (
        "$ref" not in repr(config_schema()) and config_schema()["properties"]["extras"]["properties"]["profile"]["enum"]
    )
