"""Compares lines of a log with message templates: how rules write what a program prints. Pure.

A template is the message itself. ``{name}`` stands for one word, up to the text that follows in the template;
``{name#}`` for a number; ``{name*}`` and ``{*}`` for any text. ``^`` at the beginning and ``$`` at the end hold it to
the ends of the line. Any blanks match any blanks; ``{{`` and ``}}`` are braces.

Rules may come from an admin, and lines from anybody, so a comparison must not take for ever. A template has no
repetition within another one. Each part between two ``*`` takes its first place in the line and never another one, so
the time grows with the square of the line's length at worst, and lines are cut to WIDEST characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

WIDEST = 1000  # characters of a line that are compared
LONGEST = 300  # characters of a template
MOST_PLACES = 10  # placeholders in one
LEAST_TEXT = 4  # letters that are no placeholder: a template that fits every line says nothing
MOST_KEPT = 120  # characters of a value that a placeholder took

_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<name>[a-z_]*)(?P<kind>[*#]?)\}|(?P<odd>[{}])|(?P<space>\s+)|[^{}\s]+")
_PREFIX = re.compile(r"(?:\[(?:rank|default)?\d{1,6}\]:?\s*|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+)+")


class NoTemplate(ValueError):
    """The text is no template: what is wrong with it, and at which character."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.message, self.at = message, at


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """``literal`` is a text that every fitting line has."""

    pattern: re.Pattern[str]
    literal: str

    def match(self, line: str) -> dict[str, str] | None:
        """The values of its named placeholders, or None when the line does not fit."""
        if self.literal not in line:
            return None
        line = line[:WIDEST]
        prefix = _PREFIX.match(line)  # launchers write the rank or the time before the message
        message = self.pattern.match(line, prefix.end() if prefix else 0)
        if message is None:
            return None
        return {name: value.strip()[:MOST_KEPT] for name, value in message.groupdict().items() if value is not None}


@lru_cache(maxsize=4096)
def template(text: str) -> MessageTemplate:
    """Read a template. Raises NoTemplate."""
    if len(text) > LONGEST:
        raise NoTemplate(f"A template has {LONGEST} characters at most.", LONGEST)
    body, is_start = (text[1:], True) if text.startswith("^") else (text, False)
    body, is_end = (body[:-1], True) if body.endswith("$") else (body, False)
    return _made(list(_TOKEN.finditer(body)), is_start, is_end, int(is_start))


def _made(tokens: list[re.Match[str]], is_start: bool, is_end: bool, shift: int) -> MessageTemplate:
    literals, names, segments = [""], list[str](), [""]
    takes = [""] if is_start else [".*?"]  # what leads to each segment
    was_place = False
    for at, token in enumerate(tokens):
        is_place = token["kind"] is not None
        if token["odd"]:
            raise NoTemplate("A brace of the message is written twice: {{ or }}.", token.start() + shift)
        if is_place and was_place:
            raise NoTemplate("Two placeholders need some text between them.", token.start() + shift)
        if is_place and token["name"] in names:
            raise NoTemplate(f"The placeholder {token['name']} stands in it twice.", token.start() + shift)
        if is_place and token["name"]:
            names.append(token["name"])
        if token["kind"] == "*":
            takes.append(_group(token["name"], ".*?"))
            segments.append("")
        elif is_place:
            rest = tokens[at + 1][0].replace("{{", "{").replace("}}", "}") if at + 1 < len(tokens) else ""
            segments[-1] += _group(token["name"], _one(token["kind"], rest))
        elif token["space"]:
            segments[-1] += r"\s++"
        else:
            text = {"{{": "{", "}}": "}"}.get(token[0], token[0])
            literals.append(text)
            segments[-1] += re.escape(text)
        was_place = is_place
    if len(names) > MOST_PLACES or len(segments) > MOST_PLACES:
        raise NoTemplate(f"A template has {MOST_PLACES} placeholders at most.")
    if sum(map(len, literals)) < LEAST_TEXT:
        raise NoTemplate(f"A template needs {LEAST_TEXT} characters that are no placeholder.")
    if is_end:
        segments[-1] += r"\s*+$"
    pattern = "".join(f"(?>{take}{part})" for take, part in zip(takes, segments, strict=True) if part)
    if not segments[-1]:
        pattern += takes[-1].replace("*?", "*+")
    return MessageTemplate(re.compile(pattern), max(literals, key=len))


def _one(kind: str, following: str) -> str:
    if kind == "#":
        return r"[-+]?\d++(?:\.\d++)?+"
    return rf"(?:(?!{re.escape(following)})\S)++" if following.strip() else r"\S++"


def _group(name: str, pattern: str) -> str:
    return f"(?P<{name}>{pattern})" if name else f"(?:{pattern})"
