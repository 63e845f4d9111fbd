"""Turns YAML into JSON text, for clients of the later system, which send a v1 config as YAML. Pure.

The library takes minutes for brackets opened thousands deep, so it reads event by event until it is too deep.
"""

from __future__ import annotations

import json

import yaml

from jobs.config.jsonc import MAX_DEPTH
from jobs.config.spec import MAX_CONFIG_BYTES


def to_json(text: str) -> str | None:
    """The same values as JSON. None for text that is not YAML of an object, is too long or too deep for a config, or
    has aliases, which can hide any size."""
    try:
        if len(text) > MAX_CONFIG_BYTES or not _is_plain(text):
            return None
        value = yaml.safe_load(text)
        return json.dumps(value, indent=2, ensure_ascii=False, default=str) if isinstance(value, dict) else None
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _is_plain(text: str) -> bool:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True
