"""Shows a config: as lines of coloured pieces, laid out on many lines, and with the defaults that apply. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from jobs.config import jsonc

Piece = tuple[str, str]  # (class: k key, s string, n number or word, c comment, "" other; text)

_TOKEN = re.compile(
    r'(?P<c>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<k>"(?:[^"\\\n]|\\.)*"(?=\s*:))|(?P<s>"(?:[^"\\\n]|\\.)*"?)'
    r"|(?P<n>-?\d[\d.eE+-]*|\b(?:true|false|null)\b)",
    re.DOTALL,
)
_WIDEST = 200  # characters of a line that people can read
_OF_JOB = ("virtualCluster", "retryCount", "gpuType")
_OF_ROLE = ("taskNumber", "cpuNumber", "memoryMB", "shmMB", "gpuNumber", "minFailedTaskCount")


def coloured(text: str) -> list[list[Piece]]:
    """One list of pieces for each line. Joined they are the text, without its line ends."""
    lines: list[list[Piece]] = [[]]
    for css, piece in _pieces(text.replace("\r\n", "\n").removesuffix("\n")):
        first, *others = piece.split("\n")
        if first:
            lines[-1].append((css, first))
        for other in others:
            lines.append([(css, other)] if other else [])
    return lines


def is_packed(text: str) -> bool:
    """Whether the text has so few lines that nobody can read it."""
    return max(map(len, text.splitlines()), default=0) > _WIDEST and text.count("\n") < len(text) // _WIDEST


def pretty_printed(text: str) -> str:
    """The same config on many lines. Only the white space between its pieces changes: numbers, order, comments and
    strings stay as they were sent. A text that is no JSON stays whole."""
    try:
        jsonc.parse(text)
    except jsonc.NotJson:
        return text
    output: list[str] = []
    depth, is_new = 0, False
    for css, piece in _pieces(text):
        for sign in [piece] if css else [sign for sign in piece if not sign.isspace()]:
            closes = sign in ("}", "]")
            if closes:
                depth -= 1
                is_new = not (output and output[-1] in ("{", "["))
            if is_new:
                output.append("\n" + "  " * depth)
            output.append(": " if sign == ":" else sign)
            is_new = sign in ("{", "[", ",") or sign.startswith("//")
            depth += sign in ("{", "[")
    return "".join(output) + "\n"


def difference(old: str, new: str) -> list[tuple[str, list[Piece]]]:
    """The lines that differ, with three of those around them: (sign: -, + or space, the line as pieces); of what is
    left out between them one line of the sign …."""
    found: list[tuple[str, list[Piece]]] = []
    for line in unified_diff(old.splitlines(), new.splitlines(), n=3, lineterm=""):
        if line.startswith(("---", "+++")) and not found:
            continue
        if line.startswith("@@"):
            found.append(("…", []))
        else:
            found.append((line[0], coloured(line[1:])[0]))
    return found[1:]


def added(text: str, spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(field, value) of the fields that the config left out and a default filled in; only those that matter."""
    try:
        sent = jsonc.parse(text).value
    except jsonc.NotJson:
        return []
    if not isinstance(sent, dict):
        return []
    fields = [(name, _shown(spec[name])) for name in _OF_JOB if name not in sent and spec.get(name) not in ("", None)]
    roles = sent.get("taskRoles")
    if isinstance(roles, list):
        for role, filled in zip(roles, spec.get("taskRoles", ()), strict=False):
            fields += _added_to_role(role, filled)
    return fields


def _added_to_role(role: Any, filled: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    if not isinstance(role, dict):
        return []
    return [
        (f"{filled['name']}.{name}", _shown(filled[name])) for name in _OF_ROLE if name not in role and name in filled
    ]


def _pieces(text: str) -> Iterator[Piece]:
    at = 0
    for match in _TOKEN.finditer(text):
        if match.start() > at:
            yield "", text[at : match.start()]
        yield match.lastgroup or "", match.group()
        at = match.end()
    if at < len(text):
        yield "", text[at:]


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
