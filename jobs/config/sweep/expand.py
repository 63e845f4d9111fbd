"""Writes the configs of a sweep's jobs: the text of the sweep with the values in the places of ``$$name$$``. Pure.

Only texts are filled in, so that a config of a sweep is JSON itself: ``"gpuNumber": "$$gpus$$"`` works, as a number may
be written as a text. Comments and layout stay. In place of the sweep each config has what it is of it, which is
no sweep, so a clone of such a job is one job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.config import jsonc
from jobs.config.spec import MAX_CONFIG_BYTES
from jobs.config.sweep.parameters import POINTER, BadSweep, SweepSpec

MOST_ROLES = 20_000  # of all jobs
MOST_BYTES = 8_000_000  # of the configs of all jobs: each of them is read and kept
_PLACE = re.compile(r"\$\$([A-Za-z_][A-Za-z0-9_]*)\$\$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Variant:
    """One job of a sweep."""

    name: str
    values: Mapping[str, str]
    config: str


def expand(text: str, document: jsonc.Document, sweep: SweepSpec) -> list[Variant]:
    """The jobs in order; ``document`` is the parsed ``text``. Their names are its jobName with -01, -02 ...
    behind it. Raises BadSweep: no jobName, a sweep that is written as a text with JSON in it, a place for which there
    is no parameter, a parameter for which there is no place, configs that are too large."""
    places = document.places
    if POINTER not in places or "/jobName" not in places or document.text[places["/jobName"].value] != '"':
        raise _bad(document, "/jobName", "A sweep needs a jobName, and extras.sweep as an object, not as a text.")
    roles = document.value.get("taskRoles")
    if isinstance(roles, list) and len(roles) * len(sweep.jobs) > MOST_ROLES:
        says = f"Its {len(sweep.jobs)} jobs of {len(roles)} task roles have more than {MOST_ROLES:,} roles together."
        raise _bad(document, POINTER, f"{says} Make it several sweeps.")
    text, stem = text.removeprefix("\ufeff"), str(document.value["jobName"])
    name_at, sweep_at, strings = _span(document, "/jobName"), _span(document, POINTER), _strings(document, sweep)
    width = max(2, len(str(len(sweep.jobs))))
    variants, written = list[Variant](), 0
    for number, values in enumerate(sweep.jobs, 1):
        name, mine = f"{stem}-{number:0{width}}", {"of": stem, "number": number, "values": dict(values)}
        filled = {at: _filled(string, values) for at, string in strings.items()}
        config = _with(text, {name_at: name, sweep_at: mine, **filled})
        written += (size := len(config.encode(errors="surrogatepass")))
        if size > MAX_CONFIG_BYTES:
            says = f"The config of {name} is larger than {MAX_CONFIG_BYTES // 1024} kB with its values filled in."
            raise _bad(document, POINTER, says)
        if written > MOST_BYTES:
            most = MOST_BYTES // 1_000_000
            says = f"The configs of its jobs are larger than {most} MB together. Make it several sweeps."
            raise _bad(document, POINTER, says)
        variants.append(Variant(name, values, config))
    return variants


def _strings(document: jsonc.Document, sweep: SweepSpec) -> dict[tuple[int, int], str]:
    """The texts of the config in which values are filled in, by where they begin and end. Raises BadSweep."""
    strings: dict[tuple[int, int], str] = {}
    used: set[str] = set()
    for path, place in document.places.items():
        is_own = path == "/jobName" or path.startswith((f"{POINTER}/", "/extras/secrets/"))
        if is_own or document.text[place.value] != '"':
            continue
        begin, end = _span(document, path)
        string = json.loads(document.text[begin:end])
        if names := set(_PLACE.findall(string)):
            if unknown := sorted(names - set(sweep.parameters)):
                raise _bad(document, path, f"There is no parameter {unknown[0]} in the sweep.")
            used |= names
            strings[begin, end] = string
    if unused := [name for name in sweep.parameters if name not in used]:
        says = f"$${unused[0]}$$ stands nowhere in the config, so the jobs would be alike in it."
        where = "/grid/" if "grid" in document.value["extras"]["sweep"] else "/list/0/"
        raise _bad(document, f"{POINTER}{where}{unused[0]}", says)
    return strings


def _span(document: jsonc.Document, path: str) -> tuple[int, int]:
    return document.places[path].value, document.end(path)


def _filled(string: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda match: values[match[1]], string)


def _with(text: str, values: Mapping[tuple[int, int], Any]) -> str:
    """The text with these values in these places of it."""
    parts, at = list[str](), 0
    for (begin, end), value in sorted(values.items(), key=lambda cut: cut[0]):
        parts += (text[at:begin], json.dumps(value, ensure_ascii=False))
        at = end
    return "".join((*parts, text[at:]))


def _bad(document: jsonc.Document, path: str, message: str) -> BadSweep:
    return BadSweep(document.problem(path, message))
