"""Writes the configs of a sweep's jobs: the text of the sweep with the values in the places of ``$$name$$``. Pure.

Only texts are filled in, so that a config of a sweep is JSON itself: ``"gpuNumber": "$$gpus$$"`` works, as a number may
be written as a text. Comments and layout stay. In place of the sweep each config has what it is of it, which is
no sweep, so a clone of such a job is one job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.config import jsonc
from jobs.config.spec import MAX_CONFIG_BYTES
from jobs.config.sweep.parameters import POINTER, BadSweep, Sweep
from portal.core.errors import Problem

MOST_BYTES = 8_000_000  # of the configs of all jobs: each of them is read and kept
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PLACE = re.compile(r"\$\$([A-Za-z_][A-Za-z0-9_]*)\$\$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Variant:
    """One job of a sweep."""

    name: str
    values: Mapping[str, str]
    config: str


def expand(text: str, document: jsonc.Document, sweep: Sweep) -> list[Variant]:
    """The jobs in order; ``document`` is the parsed ``text``. Their names are its jobName with -01, -02 ...
    behind it. Raises BadSweep: no jobName, a sweep that is written as a text with JSON in it, a place for which there
    is no parameter, a parameter for which there is no place, configs that are too large."""
    places = document.places
    if POINTER not in places or "/jobName" not in places or document.text[places["/jobName"].value] != '"':
        raise _bad(document, "/jobName", "A sweep needs a jobName, and extras.sweep as an object, not as a text.")
    pieces = _Pieces(text.removeprefix("\ufeff"), document, sweep)
    stem = str(document.value["jobName"])
    width = max(2, len(str(len(sweep.jobs))))
    return [
        Variant(name := f"{stem}-{number:0{width}}", values, pieces.config(name, values, number, stem))
        for number, values in enumerate(sweep.jobs, 1)
    ]


class _Pieces:
    """The text, cut where values are filled in."""

    def __init__(self, text: str, document: jsonc.Document, sweep: Sweep) -> None:
        self._text = text
        self._document = document
        self._name = self._token(document.places["/jobName"].value)
        start = document.places[POINTER].value
        self._sweep = (start, _end(document.text, start))
        self._written = 0  # bytes of the configs so far
        known = set(sweep.parameters)
        used: set[str] = set()
        self._strings: list[tuple[int, int, str]] = []
        for path, place, value in _texts(document):
            if path.startswith((f"{POINTER}/", "/extras/secrets/")):
                continue
            names = set(_PLACE.findall(value))
            if unknown := sorted(names - known):
                raise _bad(document, path, f"There is no parameter {unknown[0]} in the sweep.")
            used |= names
            if names:
                self._strings.append((*self._token(place), value))
        if unused := [name for name in sweep.parameters if name not in used]:
            says = f"$${unused[0]}$$ stands nowhere in the config, so the jobs would be alike in it."
            where = "/grid/" if "grid" in document.value["extras"]["sweep"] else "/list/0/"
            raise _bad(document, f"{POINTER}{where}{unused[0]}", says)

    def config(self, name: str, values: Mapping[str, str], number: int, stem: str) -> str:
        mine = {"of": stem, "number": number, "values": dict(values)}
        cuts: list[tuple[int, int, Any]] = [(*self._name, name), (*self._sweep, mine)]
        cuts += [(start, end, _filled(text, values)) for start, end, text in self._strings]
        parts, at = list[str](), 0
        for start, end, value in sorted(cuts, key=lambda cut: cut[0]):
            parts += (self._text[at:start], json.dumps(value, ensure_ascii=False))
            at = end
        text = "".join((*parts, self._text[at:]))
        self._written += (size := len(text.encode(errors="surrogatepass")))
        if size > MAX_CONFIG_BYTES:
            says = f"The config of {name} is larger than {MAX_CONFIG_BYTES // 1024} kB with its values filled in."
            raise _bad(self._document, POINTER, says)
        if self._written > MOST_BYTES:
            most = MOST_BYTES // 1_000_000
            says = f"The configs of its jobs are larger than {most} MB together. Make it several sweeps."
            raise _bad(self._document, POINTER, says)
        return text

    def _token(self, start: int) -> tuple[int, int]:
        found = _STRING.match(self._text, start)
        assert found is not None, "only texts are looked for"
        return found.span()


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda match: values[match[1]], text)


def _texts(document: jsonc.Document) -> Iterator[tuple[str, int, str]]:
    """(pointer, offset, decoded text) of each text of the config, in order; no keys."""
    for path, place in document.places.items():
        if document.text[place.value] == '"' and path != "/jobName":
            found = _STRING.match(document.text, place.value)
            if found and "$$" in found[0]:
                yield path, place.value, json.loads(found[0])


def _end(text: str, start: int) -> int:
    """The end of the object that begins there. ``text`` has no comments any more, which could hold a bracket."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text[start:], re.DOTALL):
        depth += (token[0] in ("{", "[")) - (token[0] in ("}", "]"))
        if depth == 0:
            return start + token.end()
    return len(text)


def _bad(document: jsonc.Document, path: str, message: str) -> BadSweep:
    line, column = document.line_column(document.offset(path))
    return BadSweep([Problem(line, column, path, message)])
