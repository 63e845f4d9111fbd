"""The words and numbers of the pages: states, durations, sizes, lists of ids. Pure; the browser's copy of
``duration`` and ``ago`` is static/js/longshore.js."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

UNLIMITED = -1  # a quota that is none, as HDFS writes it
NOTHING = "–"  # unknown or not applicable; 0 is written as 0


@dataclass(frozen=True, slots=True)
class StateWord:
    word: str
    icon: str
    css: str


STATES: dict[str, StateWord] = {
    "WAITING": StateWord("Waiting", "hourglass-low", "ls-waiting"),
    "STARTING": StateWord("Starting", "loader-2", "ls-starting"),
    "RUNNING": StateWord("Running", "player-play", "ls-running"),
    "STOPPING": StateWord("Stopping", "player-eject", "ls-stopping"),
    "SUCCEEDED": StateWord("Succeeded", "circle-check", "ls-succeeded"),
    "FAILED": StateWord("Failed", "alert-circle", "ls-failed"),
    "STOPPED": StateWord("Stopped", "player-stop", "ls-stopped"),
    "active": StateWord("Active", "circle-check", "ls-normal"),
    "cordoned": StateWord("Cordoned", "circle-minus", "ls-stopped"),
    "draining": StateWord("Draining", "arrow-bar-to-down", "ls-stopping"),
    "unreachable": StateWord("Unreachable", "plug-connected-x", "ls-failed"),
}

_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))?\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def duration(seconds: float | None) -> str:
    """At most two units: ``48 s``, ``6 min 36 s``, ``2 h 51 min``, ``1 d 4 h``."""
    if seconds is None:
        return NOTHING
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole, _MINUTE, "min", 1, "s")
    if whole < _DAY:
        return _two(whole, _HOUR, "h", _MINUTE, "min")
    return _two(whole, _DAY, "d", _HOUR, "h")


def hours(value: float) -> str:
    """Return ``0``, ``0.04``, ``3.2``, ``1,284``."""
    if value < 0.0005:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def ago(seconds: float) -> str:
    """``just now``, ``3 min ago``, ``5 h ago``, ``2 d ago``: one unit, for up to 7 days."""
    whole = max(0, int(seconds))
    if whole < 5:
        return "just now"
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if whole >= size:
            return f"{whole // size} {unit} ago"
    return f"{whole} s ago"


def next_minute(moment: datetime) -> datetime:
    """The first full minute from then on, for what is told by the minute and must not be told too early."""
    return moment + timedelta(seconds=-moment.timestamp() % _MINUTE)


def clock(moment: datetime, now: datetime) -> str:
    """``15:40`` in the zone of ``now``; ``28 Nov 15:40`` where that is another day than today."""
    moment = moment.astimezone(now.tzinfo)
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment.day} {moment:%b} {moment:%H:%M}"


def zone(moment: datetime) -> str:
    """``UTC+8`` of a moment in its own zone."""
    minutes = int((moment.utcoffset() or timedelta(0)).total_seconds() // 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '-'}{hours}{f':{rest:02}' if rest else ''}" if minutes else "UTC"


def memory(megabytes: float) -> str:
    """1 GB = 1024 MB: ``512 MB``, ``64 GB``, ``1.5 GB``."""
    if megabytes < 1024:
        return f"{megabytes:g} MB"
    return f"{round(megabytes / 1024, 1):,g} GB"


def size(count: int) -> str:
    """Bytes: ``212 KB``, ``18.4 MB``; 1 KB = 1024 B."""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def told_apart(smaller: int, larger: int) -> tuple[str, str]:
    """Two sizes of one sentence, in bytes where rounding would make them the same."""
    one, other = size(smaller), size(larger)
    return (one, other) if one != other else (f"{smaller:,} B", f"{larger:,} B")


def whole(text: str | None, digits: int = 18) -> int | None:
    """The number from 0 on that a text writes in at most so many ASCII digits; None of any other text. ``int`` reads
    other alphabets as well, and no number that is very long."""
    return int(text) if text and len(text) <= digits and text.isascii() and text.isdigit() else None


def quota_in(text: str) -> int:
    """Bytes of ``100g``, ``1.5 TB`` or ``4096``; UNLIMITED of ``none``. Raises ValueError."""
    if text.strip().lower() == "none":
        return UNLIMITED
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    whole, fraction, unit = match[1], match[2] or "0", match[3].lower()
    factor = 1 << 10 * " kmgtp".index(unit or " ")
    size = int(whole) * factor + int(fraction) * factor // int(10 ** len(fraction))
    if size >= 1 << 63:  # a database holds no more
        raise ValueError(text)
    return size


def quota_text(quota: int | None) -> str:
    """What ``quota_in`` reads as this quota, as short as it can be said; empty for none that is set."""
    if quota is None or quota == UNLIMITED:
        return "" if quota is None else "none"
    power = max((each for each in range(6) if quota and quota % (1 << 10 * each) == 0), default=0)
    return f"{quota >> 10 * power}{' kmgtp'[power].strip()}"


def number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def code(value: int) -> str:
    """An exit code: no thousands, a true minus."""
    return str(value).replace("-", "–")


def count(n: int, one: str, many: str = "") -> str:
    """``1 task``, ``16 tasks``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def ranges(ids: Iterable[str | int]) -> str:
    """Return ``0–3, 6``. Ids that are no numbers are listed as they are."""
    texts = [str(i) for i in ids]
    if not texts:
        return NOTHING
    if not all(text.isdigit() for text in texts):
        return ", ".join(texts)
    numbers = sorted({int(text) for text in texts})
    parts: list[list[int]] = []
    for value in numbers:
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}–{p[-1]}" for p in parts)


def listing(words: Iterable[str], most: int = 4) -> str:
    """Return ``gpu-01, gpu-02 and 3 more``."""
    texts = list(words)
    if len(texts) <= most:
        return ", ".join(texts)
    return f"{', '.join(texts[: most - 1])} and {len(texts) - most + 1} more"


def unseen(text: str) -> str:
    """The first sign of a short name that nobody sees and that may hide or turn what stands around it, and where it is:
    ``U+202E at position 5``; empty where there is none. Free texts may have them: an emoji of a family is joined by
    such signs."""
    for at, sign in enumerate(text, 1):
        if unicodedata.category(sign) in _UNSEEN or sign in _BLANKS:
            return f"U+{ord(sign):04X} at position {at}"
    return ""


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # control, format, half pairs, ends of lines and paragraphs
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # that count as letters and signs


def visible(text: str) -> str:
    """The text with all that has no sign of its own spelled out, such as marks that turn the direction of reading: so a
    name that somebody made up reads as what it is."""
    return "".join(sign if sign.isprintable() and sign not in _BLANKS else ascii(sign)[1:-1] for sign in text)


def ordinal(n: int) -> str:
    suffix = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{suffix}"


def _two(whole: int, big: int, big_unit: str, small: int, small_unit: str) -> str:
    rest = whole % big // small
    return f"{whole // big} {big_unit}" + (f" {rest} {small_unit}" if rest else "")
