"""Turns violations of a job config into problems that people can act on, with line and column. Pure.

pydantic says what is wrong with one value; ``across`` adds what is wrong between values. Both come in pydantic's
shape of an error, which ``problems_of`` puts into plain English and into the order of the document.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from base.core.errors import Problem
from jobs.config import coerce, extras, jsonc
from jobs.config.editing.mends import mend_of
from jobs.config.v1_words import Error, Loc, location, own_error

_KEY_ERRORS = frozenset({"extra_forbidden", "env_name", "extra_name", "secret_name"})
_PATTERNS = {
    r"^[A-Za-z0-9._~]+$": "letters, digits, dot, underscore and ~",
    r"^[A-Za-z0-9\-._]+$": "letters, digits, dash, dot and underscore",
    r"^([A-Za-z0-9\-._]+~)?[A-Za-z0-9\-._]+$": "letters, digits, dash, dot and underscore",
}
_SPACELESS = {r"^\S+$", r"^\S*$"}
PORT_MAX = 65_535
MOST_SHOWN = 200  # problems of one config
MOST_READ = 1_000  # problems of which it is looked for where they stand
MAX_PORTS = 100  # of one task, without the http and ssh that each has


def problems_of(errors: Sequence[Error], document: jsonc.Document | None) -> list[Problem]:
    """The problems in document order; without a document line and column are 0 and the order is that of ``errors``.

    They are the first MOST_SHOWN, and one more that says how many there are: a config has room for tens of thousands,
    and each takes a while to find, to put into words and to mend. Of more than MOST_READ the first of ``errors`` are
    taken, without a mend.
    """
    if document is None:
        return [Problem(0, 0, jsonc.pointer(location(e)), sentence(e)) for e in errors]
    faults = {fault.path for fault in document.faults if fault.at == document.offset(fault.path)}
    places: list[tuple[int, str, str | Error]] = [(fault.at, fault.path, fault.message) for fault in document.faults]
    for error in errors[:MOST_READ]:
        path = jsonc.pointer(location(error))
        if path not in faults:
            places.append((document.offset(path, of_key=error["type"] in _KEY_ERRORS), path, error))
    places.sort(key=lambda item: item[0])
    value = document.value if len(errors) <= MOST_READ else None
    shown = [
        Problem(*document.line_column(at), path, what)
        if isinstance(what, str)
        else Problem(*document.line_column(at), path, sentence(what), mend_of(what, value) if value else None)
        for at, path, what in places[:MOST_SHOWN]
    ]
    if len(places) > MOST_SHOWN:
        number = len(places) + len(errors[MOST_READ:])
        rest = f"There are {number:,} problems; these are the first {MOST_SHOWN}."
        shown.append(Problem(*document.line_column(places[MOST_SHOWN][0]), "", rest))
    return shown


def sentence(error: Error) -> str:
    """What is wrong, for people. It never has the value of a secret."""
    loc, value, ctx = location(error), error["input"], error.get("ctx", {})
    name = _name(loc)
    match error["type"]:
        case "missing":
            return f"{name} is missing."
        case "extra_forbidden":
            return f"{name} is not a known field{_meant(loc, ctx)}."
        case "env_name":
            return f"{name} cannot be the name of an environment variable."
        case "extra_name":
            return f"{name} cannot be a name here: it needs a letter, a digit, a dot or an underscore."
        case "not_addressable":
            return f"{name} is {_shown(value)}, which no address can hold: choose another name."
        case "image_id":
            return f"{name} is {_shown(value)}, which is an id that an image has on a node: write the image's name."
        case "unseen":
            return f"{name} has {ctx['sign']}, a sign that nobody sees: write it without."
        case "string_too_short" | "too_short":
            return f"{name} must not be empty."
        case "string_too_long":
            return f"{name} has {len(value)} characters; the most is {ctx['max_length']}."
        case "string_pattern_mismatch":
            return _pattern(name, value, ctx["pattern"])
        case "greater_than_equal":
            return f"{name} is {value}; the least is {ctx['ge']}."
        case "less_than_equal":
            return f"{name} is {value}; the most is {ctx['le']}."
        case "shm_over_memory":
            return f"{name} is {value}; the most is the role's memoryMB, {ctx['le']}."
        case "too_long":
            return f"{name} has {len(value)} entries; the most is {ctx['max_length']}."
        case "literal_error":
            words = ctx["expected"].replace("'", "")
            return f"{name} is {_shown(value)}; it must be {words}."
        case kind if kind in _WANTED:
            return f"{name} is {_shown(value)}; it must be {_WANTED[kind]}."
        case "int_unsafe" | "infinite":
            return f"{name} is too large a number."
        case _:
            return str(ctx.get("sentence", error["msg"]))


_WANTED = {
    "string_type": "a text in double quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "model_type": "an object: { ... }",
    "dict_type": "an object: { ... }",
    "tuple_type": "an array: [ ... ]",
    "level": 'a level of the label topology: a whole number from 1 to 16, or "node"',
}


def across(
    value: Any, *, max_tasks: int, max_gpus: int, is_given: Callable[[int, int], bool] = lambda first, number: True
) -> Iterator[Error]:
    """Errors that no single value shows: counts, names used twice, ports past the end, totals.

    ``value`` is the decoded config, right or wrong: values of a wrong type are left out, since pydantic reports them.
    ``is_given`` says whether any node gives out so many ports from the first on.
    """
    roles = _dicts(_field(value, "taskRoles"))
    yield from _twice(roles, ("taskRoles",), "name", "role")
    for at, role in roles:
        yield from _min_counts(role, ("taskRoles", at))
        ports = _dicts(_field(role, "portList"))
        yield from _twice(ports, ("taskRoles", at, "portList"), "label", "port")
        yield from (error for i, port in ports for error in _port_range(port, ("taskRoles", at, "portList", i)))
        yield from _fixed_ports(ports, ("taskRoles", at, "portList"), is_given)
        yield from _port_count(ports, ("taskRoles", at, "portList"))
    is_text = not isinstance(value, dict) or isinstance(value.get("extras"), str)
    yield from extras.errors(_field(value, "extras"), as_text=is_text)
    yield from _totals([role for _, role in roles], max_tasks, max_gpus)


def _twice(items: Sequence[tuple[int, Any]], loc: Loc, key: str, what: str) -> Iterator[Error]:
    seen: dict[str, int] = {}
    for at, item in items:
        name = item.get(key)
        if isinstance(name, str) and seen.setdefault(name, at) != at:
            says = f"There are two {what}s named {jsonc.shown(name)}."
            yield own_error("duplicate", (*loc, at, key), name, sentence=says, position=at)


def _min_counts(role: Mapping[str, Any], loc: Loc) -> Iterator[Error]:
    tasks = _integer(role, "taskNumber", 1)
    for key in ("minFailedTaskCount", "minSucceededTaskCount"):
        count = _integer(role, key, 0)
        if tasks is not None and count is not None and count > tasks >= 1:
            says = f"{key} is {count}; the most is the role's taskNumber, {tasks}."
            yield own_error("min_count", (*loc, key), count, sentence=says)


def _port_range(port: Mapping[str, Any], loc: Loc) -> Iterator[Error]:
    begin, number = _integer(port, "beginAt", 0), _integer(port, "portNumber", 1)
    if begin and number and begin <= PORT_MAX >= number and begin + number - 1 > PORT_MAX:
        says = f"The ports {begin} to {begin + number - 1} do not exist: the highest port is {PORT_MAX}."
        v1 = f"must be less than or equal to {PORT_MAX - begin + 1}"
        yield own_error("port_range", (*loc, "portNumber"), number, sentence=says, v1=v1)


def _fixed_ports(
    ports: Sequence[tuple[int, Mapping[str, Any]]], loc: Loc, is_given: Callable[[int, int], bool]
) -> Iterator[Error]:
    for at, port in ports:
        first, number = _integer(port, "beginAt", 0), _integer(port, "portNumber", 1)
        if not first or not number or first < 0 or not 0 < number <= MAX_PORTS or first + number - 1 > PORT_MAX:
            continue
        if not is_given(first, number):
            which = f"port {first}" if number == 1 else f"ports {first} to {first + number - 1}"
            says = f"No node gives out {which}; use beginAt 0 for free ports, or ask an admin to allow these on a node."
            v1 = "must be 0 or a port that a node gives out"
            yield own_error("fixed_port", (*loc, at, "beginAt"), first, sentence=says, v1=v1)


def _port_count(ports: Sequence[tuple[int, Mapping[str, Any]]], loc: Loc) -> Iterator[Error]:
    total = 0
    for at, port in ports:
        number = max(_integer(port, "portNumber", 1) or 0, 0)
        total += number
        if number <= PORT_MAX and total > MAX_PORTS:
            says = f"A task may have {MAX_PORTS} ports; with these it asks for {total}."
            v1 = f"must be less than or equal to {max(MAX_PORTS - total + number, 0)}"
            yield own_error("port_count", (*loc, at, "portNumber"), number, sentence=says, v1=v1)
            return


def _totals(roles: Sequence[Mapping[str, Any]], max_tasks: int, max_gpus: int) -> Iterator[Error]:
    tasks = gpus = 0
    for role in roles:
        number = max(_integer(role, "taskNumber", 1) or 0, 0)
        tasks += number
        gpus += number * max(_integer(role, "gpuNumber", 0) or 0, 0)
    for total, most, what in ((tasks, max_tasks, "tasks"), (gpus, max_gpus, "GPUs")):
        if total > most:
            says = f"The job asks for {total} {what}; the most is {most}."
            v1 = f"must not ask for more than {most} {what} in total"
            yield own_error("total", ("taskRoles",), total, sentence=says, v1=v1)


def _field(value: Any, key: str) -> Any:
    value = coerce.container(value)
    return coerce.container(value.get(key)) if isinstance(value, dict) else None


def _dicts(value: Any) -> list[tuple[int, dict[str, Any]]]:
    items = [coerce.container(item) for item in value] if isinstance(value, list) else []
    return [(at, item) for at, item in enumerate(items) if isinstance(item, dict)]


def _integer(item: Mapping[str, Any], key: str, default: int) -> int | None:
    try:
        return coerce.integer(item.get(key, default))
    except ValueError:
        return None


def _name(loc: Loc) -> str:
    if not loc:
        return "The config"
    if isinstance(loc[-1], int):
        return f"{loc[-2]}[{loc[-1]}]"
    return jsonc.shown(loc[-1]) if loc[-1] else "An empty name"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return jsonc.quoted(value) if isinstance(value, str) else str(value)


def _pattern(name: str, value: str, pattern: str) -> str:
    if pattern == r"\S":
        return f"{name} has nothing but white space."
    if pattern in _SPACELESS:
        return f"{name} is {jsonc.quoted(value)}; it must not contain white space."
    return f"{name} is {jsonc.quoted(value)}; it may only contain {_PATTERNS[pattern]}."


def _meant(loc: Loc, ctx: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(str(loc[-1]), ctx.get("known", ()), n=1)
    return f"; perhaps {close[0]} is meant" if close else ""
