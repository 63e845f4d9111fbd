"""Turns YAML into JSON text, for clients of the later system, which send a v1 config as YAML. Pure.

The library takes minutes for brackets opened thousands deep, so it reads event by event until it is too deep.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import yaml

from jobs.config.jsonc import MAX_DEPTH
from jobs.config.spec import MAX_CONFIG_BYTES


class NotYaml(Exception):
    """The text cannot be read as YAML of a config. The message is a sentence that says why."""


def to_json(text: str) -> str | None:
    """The same values as JSON. None for text that ``converted`` cannot read."""
    try:
        return converted(text)
    except NotYaml:
        return None


def converted(text: str) -> str:
    """The same values as JSON. Raises NotYaml for text that is not YAML of an object, is too long or too deep for a
    config, or has aliases, which can hide any size."""
    if len(text) > MAX_CONFIG_BYTES:
        raise NotYaml(f"The config is longer than {MAX_CONFIG_BYTES:,} bytes.")
    try:
        if not is_plain(text, MAX_DEPTH):
            raise NotYaml(f"The config has an alias, such as *name, or is nested deeper than {MAX_DEPTH} levels.")
        value = yaml.safe_load(text)
        if not isinstance(value, dict):
            raise NotYaml("The config must be an object: names with values.")
        return json.dumps(value, indent=2, ensure_ascii=False, default=_text_of)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise NotYaml(f"This YAML cannot be read: {line}{error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise NotYaml(f"This YAML cannot be read: {str(error).splitlines()[0]}.") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NotYaml("A value of this YAML is wrong: no such date, too many digits, or not of its tag.") from None


def _text_of(value: object) -> str:
    """A date as text. Raises NotYaml for any other value that JSON does not have."""
    if isinstance(value, date):
        return str(value)
    raise NotYaml("A config has texts, numbers, truths, lists and objects: no !!binary and no !!set.")


def is_plain(text: str, deepest: int, loader: Any = yaml.SafeLoader) -> bool:
    """Whether nothing in it takes more room in memory than in the text, or is nested too deep. Raises YAMLError."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest or isinstance(event, yaml.AliasEvent):
            return False
    return True
