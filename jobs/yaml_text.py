"""YAML to JSON text, for clients of the later system that send a v1 config so. Pure."""

from __future__ import annotations

import json

import yaml


def to_json(text: str) -> str | None:
    """The same values as JSON; None for what is not YAML of an object, and for aliases, which can hide any size."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            return None
        value = yaml.safe_load(text)
        return json.dumps(value, indent=2, ensure_ascii=False, default=str) if isinstance(value, dict) else None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return None
