"""Turns the terminal codes of a log line into text with colours and styles: classes of static/css/ansi.css. Pure.

Pages have no inline styles, so each of the 256 colours of terminals has three classes: ``f`` for text, in a shade that
can be read in both schemes; ``b`` for a background, with black or white text on it; ``x`` for text on such a
background. For one of the 16 million colours the class is that of the nearest, and a script sets the colour itself.
Each line begins without a style.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

Rgb = tuple[int, int, int]
Colour = int | Rgb  # a number of the palette, or any colour
Piece = tuple[str, str, str, str]  # text, classes, colour and background in CSS: "" where the classes are enough

_CODE = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m|\x1b\[[0-?]*[ -/]*(?:[@-~]|\Z)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[@-Z\\^_=>]|[\x00-\x08\x0b-\x1f\x7f]"
)
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "under", 7: "inverse", 9: "struck", 21: "under"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("under",), 27: ("inverse",), 29: ("struck",)}
_FIRST = (
    "000000 cd3131 0dbc79 e5e510 2472c8 bc3fbc 11a8cd e5e5e5 666666 f14c4c 23d18b f5f543 3b8eea d670d6 29b8db ffffff"
)
_LEVELS = (0, 95, 135, 175, 215, 255)
_READABLE = 4.5
# The background of a line under the pointer (--ls-sunk): text has less contrast there than on the card.
_BEHIND: tuple[Rgb, Rgb] = ((0xF1, 0xF3, 0xF6), (0x1C, 0x23, 0x2B))
_BLACK, _WHITE = (0, 0, 0), (255, 255, 255)


def pieces(raw: str) -> tuple[str, tuple[Piece, ...]]:
    """The text without codes, and its pieces by style; no pieces when all of it is plain."""
    if "\x1b" not in raw:
        return _CODE.sub("", raw), ()
    parts: list[Piece] = []
    style, at = _Style(), 0
    for match in _CODE.finditer(raw):
        _add(parts, raw[at : match.start()], style)
        at = match.end()
        if match["sgr"] is not None:
            style = _after(style, match["sgr"])
    _add(parts, raw[at:], style)
    text = "".join(piece[0] for piece in parts)
    return text, tuple(parts) if any(piece[1] for piece in parts) else ()


@dataclass(frozen=True, slots=True)
class _Style:
    text: Colour | None = None
    ground: Colour | None = None
    marks: frozenset[str] = frozenset()


def _add(parts: list[Piece], text: str, style: _Style) -> None:
    if not text:
        return
    css = _css(style)
    if parts and parts[-1][1:] == css:
        text = parts.pop()[0] + text
    parts.append((text, *css))


@lru_cache(maxsize=4096)
def _css(style: _Style) -> tuple[str, str, str]:
    """Classes, colour and background of a Piece."""
    text, ground, marks = style.text, style.ground, set(style.marks)
    if "inverse" in marks and (text is not None or ground is None):
        text, ground = ground, text
        if ground is not None:
            marks.discard("inverse")
    elif "inverse" in marks:
        text = ground = None  # the text gets the page's own background colour: the class knows it
    if text is not None or ground is not None:
        marks.discard("dim")  # a dimmed colour could not be read
    classes = [f"a-{mark}" for mark in sorted(marks)]
    colour = background = ""
    if ground is not None:
        classes.append(f"b{_nearest(ground)}")
        behind = _rgb(ground)
        background = "" if isinstance(ground, int) else _hex(behind)
        is_readable = text is not None and _contrast(_rgb(text), behind) >= _READABLE
        if text is not None and is_readable:
            classes.append(f"x{_nearest(text)}")
        if background or (is_readable and not isinstance(text, int)):
            colour = _hex(_rgb(text) if text is not None and is_readable else _ink_on(behind))
    elif text is not None:
        classes.append(f"f{_nearest(text)}")
        colour = "" if isinstance(text, int) else _in_both(text)
    return " ".join(classes), colour, background


def _after(style: _Style, codes: str) -> _Style:
    """The style behind one ``ESC [ codes m``. Unknown codes are passed over."""
    numbers = iter(_numbers(codes))
    for number in numbers:
        if number == 0:
            style = _Style()
        elif number in _ON:
            style = replace(style, marks=style.marks | {_ON[number]})
        elif number in _OFF:
            style = replace(style, marks=style.marks - set(_OFF[number]))
        elif number in (38, 48):
            colour = _chosen(numbers)
            if colour is not None:
                style = replace(style, text=colour) if number == 38 else replace(style, ground=colour)
        elif 30 <= number <= 39:
            style = replace(style, text=number - 30 if number < 38 else None)
        elif 40 <= number <= 49:
            style = replace(style, ground=number - 40 if number < 48 else None)
        elif 90 <= number <= 97:
            style = replace(style, text=number - 82)
        elif 100 <= number <= 107:
            style = replace(style, ground=number - 92)
    return style


def _numbers(codes: str) -> list[int]:
    """The codes as numbers. ``38:2::1:2:3`` is ``38;2;1;2;3`` with the name of a colour space in it; ``4:0`` ends an
    underline."""
    numbers: list[int] = []
    for code in codes.split(";"):
        parts = code.split(":")
        if parts[0] in ("38", "48") and len(parts) == 6:
            del parts[2]
        elif parts[0] == "4" and len(parts) > 1:
            parts = ["24" if parts[1] == "0" else "4"]
        numbers += [int(part[:4] or 0) for part in parts]
    return numbers


def _chosen(numbers: Iterator[int]) -> Colour | None:
    kind = next(numbers, 0)
    if kind == 5:
        return min(255, next(numbers, 0))
    if kind == 2:
        red, green, blue = (min(255, next(numbers, 0)) for _ in range(3))
        return red, green, blue
    return None


def _rgb(colour: Colour) -> Rgb:
    if not isinstance(colour, int):
        return colour
    if colour < 16:
        red, green, blue = bytes.fromhex(_FIRST.split()[colour])
        return red, green, blue
    if colour >= 232:
        grey = 8 + 10 * (colour - 232)
        return grey, grey, grey
    cube = colour - 16
    return _LEVELS[cube // 36], _LEVELS[cube // 6 % 6], _LEVELS[cube % 6]


@lru_cache(maxsize=4096)
def _nearest(colour: Colour) -> int:
    if isinstance(colour, int):
        return colour
    return min(range(16, 256), key=lambda n: sum((a - b) ** 2 for a, b in zip(_rgb(n), colour, strict=True)))


@lru_cache(maxsize=4096)
def _in_both(rgb: Rgb) -> str:
    light, dark = _moved(rgb, _BLACK, _BEHIND[0]), _moved(rgb, _WHITE, _BEHIND[1])
    return f"light-dark({_hex(light)},{_hex(dark)})"


def _moved(rgb: Rgb, towards: Rgb, behind: Rgb) -> Rgb:
    """The colour moved ``towards`` another, just far enough to be read on ``behind``."""
    for step in range(21):
        red, green, blue = (round(a + (b - a) * step / 20) for a, b in zip(rgb, towards, strict=True))
        if _contrast((red, green, blue), behind) >= _READABLE:
            break
    return red, green, blue


def _ink_on(rgb: Rgb) -> Rgb:
    return _BLACK if _contrast(_BLACK, rgb) >= _contrast(_WHITE, rgb) else _WHITE


def _contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio of WCAG 2.1."""
    low, high = sorted((_light(one), _light(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(maxsize=4096)
def _light(rgb: Rgb) -> float:
    red, green, blue = (v / 3294.6 if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _hex(rgb: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)
