"""Proposes how to mend a problem of a config, where a mend is certain. Pure.

Certain means: the config is right in this place afterwards, and no other change would be meant. A page has a button
for each; the text is changed by the page, which keeps comments and layout.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jobs.config import jsonc
from jobs.config.v1_words import Error, Loc, location
from portal.core.errors import Mend

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([mMgGtT])(?:i?[bB])?\s*")
_MEGABYTES = {"m": 1, "g": 1024, "t": 1024 * 1024}
_SAFE = {
    r"^[A-Za-z0-9._~]+$": (r"[^A-Za-z0-9._~]+", "_"),
    r"^[A-Za-z0-9\-._]+$": (r"[^A-Za-z0-9\-._]+", "-"),
}
_NAMES = {"jobName": ("my-job",), "name": ("worker", "main", "server"), "label": ("http2", "rpc", "nccl")}
_REQUIRED = frozenset({"jobName", "image", "taskRoles", "name", "command", "label"})


def mend_of(error: Error, value: Any) -> Mend | None:
    """The mend for an error in pydantic's shape, in the config whose decoded value this is; None when none is
    certain."""
    find = _KINDS.get(error["type"])
    return find(location(error), error, value) if find else None


def comma(text: str) -> Mend | None:
    """The mend of a text that cannot be read because a comma or the last brackets are missing. It is certain when the
    text can be read with it."""
    blanked = jsonc.blank(text.removeprefix("\ufeff"))
    try:
        jsonc.parse(text)
    except jsonc.NotJson as fault:
        at = _end_before(blanked, _offset(blanked, fault.line, fault.column))
        for what, says, place in ((",", "Add the comma", at), (_open(blanked), "Close it", len(blanked.rstrip()))):
            if what and _reads(blanked[:place] + what + blanked[place:]):
                line, column = jsonc.line_column(blanked, place)
                return Mend(says, "insert", value=what, line=line, column=column)
    return None


def _unknown(loc: Loc, error: Error, value: Any) -> Mend | None:
    around = _at(value, loc[:-1])
    known = [name for name in error.get("ctx", {}).get("known", ()) if name not in around]
    close = difflib.get_close_matches(str(loc[-1]), known, n=1)
    return Mend(f'Rename to "{close[0]}"', "rename", _pointer(loc), close[0]) if close else None


def _missing(loc: Loc, error: Error, value: Any) -> Mend | None:
    """Only names have a value that nobody has to think about."""
    key = str(loc[-1])
    if key not in _NAMES or not isinstance(_at(value, loc[:-1]), dict):
        return None
    name = _free(_NAMES[key], _names_beside(value, loc))
    return Mend(f'Name it "{name}"', "set", _pointer(loc), name)


def _duplicate(loc: Loc, error: Error, value: Any) -> Mend | None:
    if loc[-1] not in ("name", "label"):
        return Mend("Remove it", "remove", _pointer(loc))
    name = _free((f"{error['input']}2",), _names_beside(value, loc), str(error["input"]))
    return Mend(f'Rename to "{name}"', "set", _pointer(loc), name)


def _number(loc: Loc, error: Error, value: Any) -> Mend | None:
    given, key = error["input"], str(loc[-1])
    size = _SIZE.fullmatch(given) if isinstance(given, str) else None
    if size and key in ("memoryMB", "shmMB"):
        megabytes = int(float(size[1]) * _MEGABYTES[size[2].lower()])
        return Mend(f"Set to {megabytes}", "set", _pointer(loc), megabytes)
    return _default(loc, error, value) if given is None else None


def _default(loc: Loc, error: Error, value: Any) -> Mend | None:
    return None if loc[-1] in _REQUIRED else Mend("Remove it, for the default", "remove", _pointer(loc))


def _text(loc: Loc, error: Error, value: Any) -> Mend | None:
    given = error["input"]
    if given is None:
        return _default(loc, error, value)
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return Mend(f'Set to "{given}"', "set", _pointer(loc), str(given))


def _boolean(loc: Loc, error: Error, value: Any) -> Mend | None:
    truth = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    meant = truth.get(str(error["input"]).lower())
    return None if meant is None else Mend(f"Set to {str(meant).lower()}", "set", _pointer(loc), meant)


def _array(loc: Loc, error: Error, value: Any) -> Mend | None:
    given = error["input"]
    return Mend("Put it into an array", "set", _pointer(loc), [given]) if isinstance(given, dict) else None


def _least(loc: Loc, error: Error, value: Any) -> Mend | None:
    return _set(loc, error["ctx"]["ge"])


def _most(loc: Loc, error: Error, value: Any) -> Mend | None:
    return _set(loc, error["ctx"]["le"])


def _tasks(loc: Loc, error: Error, value: Any) -> Mend | None:
    tasks = _at(value, loc[:-1]).get("taskNumber", 1)
    return _set(loc, int(tasks)) if isinstance(tasks, int | str) and str(tasks).isdigit() else None


def _pattern(loc: Loc, error: Error, value: Any) -> Mend | None:
    given, pattern = error["input"], error["ctx"]["pattern"]
    if pattern in (r"^\S+$", r"^\S*$"):
        mended = given.strip()
        return (
            Mend("Remove the space", "set", _pointer(loc), mended) if mended and not re.search(r"\s", mended) else None
        )
    if pattern not in _SAFE:
        return None
    bad, good = _SAFE[pattern]
    mended = re.sub(bad, good, given).strip(good)
    if not mended or mended in (".", "..", *_names_beside(value, loc)):
        return None
    return Mend(f'Rename to "{jsonc.shown(mended)}"', "set", _pointer(loc), mended)


def _literal(loc: Loc, error: Error, value: Any) -> Mend | None:
    words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    close = difflib.get_close_matches(str(error["input"]).lower(), words, n=1)
    return Mend(f'Set to "{close[0]}"', "set", _pointer(loc), close[0]) if close else None


def _free_ports(loc: Loc, error: Error, value: Any) -> Mend | None:
    return Mend("Use free ports", "set", _pointer(loc), 0)


_Find = Callable[[Loc, Error, Any], Mend | None]
_KINDS: Mapping[str, _Find] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "duplicate": _duplicate,
    "int_type": _number,
    "string_type": _text,
    "bool_type": _boolean,
    "tuple_type": _array,
    "dict_type": lambda loc, error, value: _default(loc, error, value) if error["input"] in (None, [], "") else None,
    "greater_than_equal": _least,
    "less_than_equal": _most,
    "shm_over_memory": _most,
    "min_count": _tasks,
    "string_pattern_mismatch": _pattern,
    "literal_error": _literal,
    "fixed_port": _free_ports,
}


def _set(loc: Loc, value: int) -> Mend:
    return Mend(f"Set to {value}", "set", _pointer(loc), value)


def _at(value: Any, loc: Loc) -> Any:
    """What is at this place; an empty object where the config has it as a text or not at all."""
    for step in loc:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return value


def _names_beside(value: Any, loc: Loc) -> set[str]:
    """The names of the roles or ports of the list in which this one is."""
    if len(loc) < 3 or not isinstance(loc[-2], int):
        return set()
    beside = _at(value, loc[:-2])
    return {str(each.get(loc[-1])) for each in beside if isinstance(each, dict)} if isinstance(beside, list) else set()


def _free(names: Iterable[str], taken: set[str], stem: str = "") -> str:
    first = list(names)
    counted = (f"{stem or first[0]}{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (*first, *counted) if name not in taken)


def _pointer(loc: Loc) -> str:
    return "".join("/" + jsonc.escape(str(step)) for step in loc)


def _offset(text: str, line: int, column: int) -> int:
    starts = [0, *(end.end() for end in re.finditer(r"\r\n?|\n", text))]
    return starts[line - 1] + column - 1


def _end_before(blanked: str, at: int) -> int:
    """The end of the last token before a place."""
    return len(blanked[:at].rstrip())


def _open(blanked: str) -> str:
    """The brackets that close what is still open at the end of the text."""
    still: list[str] = []
    for token in re.finditer(r'"(?:[^"\\\n]|\\.)*"|[\[\]{}]', blanked):
        if token[0] in "{[":
            still.append("}" if token[0] == "{" else "]")
        elif token[0] in "}]" and still:
            still.pop()
    return "".join(reversed(still))


def _reads(text: str) -> bool:
    try:
        jsonc.parse(text)
    except jsonc.NotJson:
        return False
    return True
