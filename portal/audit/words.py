"""Says what a row of the audit is about: its kind, and what was done, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from base.core.words import count

KINDS = {
    "jobs": "Jobs",
    "nodes": "Nodes",
    "vcs": "VCs",
    "users": "Users",
    "signin": "Sign-in",
    "other": "Other",
    "refused": "Refused",
}
_BY_WORD = (  # the first word that the action begins with decides
    ("refused", ("refused", "login failed", "sign-in refused")),
    ("signin", ("login", "logout", "token", "sign-in")),
    ("jobs", ("job", "place in the queue", "terminal", "web page")),
    ("nodes", ("node", "cluster")),
    ("vcs", ("virtual cluster",)),
    ("users", ("user", "group", "added to group", "removed from group", "grants", "password", "key", "email")),
    ("users", ("made admin", "admin removed", "store quota", "GitHub", "extension")),
)
_WORDS = {
    "login": "Signed in",
    "login failed": "Signed in",
    "logout": "Signed out",
    "sign-in refused": "Signed in by a provider",
    "refused": "Asked for what is not theirs",
    "job.deleted": "Job deleted",
}
_RESULTS = {"login failed": "wrong password", "refused": "not allowed", "sign-in refused": "not let in"}
_LONGEST = 200


def kind_of(action: str) -> str:
    return next((kind for kind, begins in _BY_WORD if action.startswith(begins)), "other")


def what(action: str) -> str:
    return _WORDS.get(action, action[:1].upper() + action[1:])


def result(action: str) -> str:
    """Why it was refused; empty for what was done."""
    return _RESULTS.get(action, "")


def details(data: Mapping[str, Any]) -> str:
    """The data of a row in one line: what changed from what to what, and the rest by name."""
    before, after = data.get("from"), data.get("to")
    if isinstance(before, dict) and isinstance(after, dict):
        changed = [f"{name} {_shown(before.get(name))} → {_shown(value)}" for name, value in after.items()]
        parts = [part for part, name in zip(changed, after, strict=True) if before.get(name) != after[name]]
    else:
        parts = [f"{_shown(before)} → {_shown(after)}"] if "to" in data else []
    parts += [f"{name}: {_shown(value)}" for name, value in data.items() if name not in ("from", "to") and value != ""]
    text = "; ".join(parts)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        flat = [str(each) for each in value[:10] if not isinstance(each, dict | list)]
        return ", ".join(flat) or (count(len(value), "entry", "entries") if value else "none")
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in list(value.items())[:10])
    if value is None:
        return "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
