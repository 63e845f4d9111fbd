"""Sets of ports as numbers with a bit for each port. Pure.

A job may ask for very many ports. Whatever is taken, to look for free ones among all of a node takes a few operations
on such a number, so a gang's ports take as long as it has tasks, and no longer for those already taken.
"""

from __future__ import annotations

from collections.abc import Collection

_BYTES = 65_536 // 8
_FEW = 200
_WINDOW = 256  # ports looked at together


def bits(ports: Collection[int]) -> int:
    if len(ports) > _FEW:
        found = bytearray(_BYTES)
        for port in ports:
            found[port >> 3] |= 1 << (port & 7)
        return int.from_bytes(found, "little")
    made, first, next = 0, 0, 0
    for port in ports:  # mostly one behind the other
        if port != next:
            made, first = made | span(first, next - first), port
        next = port + 1
    return made | span(first, next - first)


def span(first: int, number: int) -> int:
    """So many ports from ``first`` on."""
    return ((1 << number) - 1) << first


def count(taken: int, first: int, last: int) -> int:
    """How many ports from ``first`` to ``last`` are not taken."""
    size = last - first + 1
    return size - ((taken >> first) & span(0, size)).bit_count()


def choose(taken: int, first: int, last: int, start: int, number: int) -> list[int]:
    """So many ports from ``first`` to ``last`` that are not taken, or all there are. They are looked for from
    ``start`` places behind the first one on, round and round."""
    begin = first + start % (last - first + 1)
    ports = _free(taken, begin, last, number)
    return ports if len(ports) == number else ports + _free(taken, first, begin - 1, number - len(ports))


def _free(taken: int, first: int, last: int, number: int) -> list[int]:
    """The first so many that are not taken."""
    ports: list[int] = []
    rest = taken >> first
    while len(ports) < number:
        skip = (~rest & (rest + 1)).bit_length() - 1
        rest, first = rest >> skip, first + skip
        window = min(_WINDOW, number - len(ports), last - first + 1)
        if window <= 0:
            break
        near = rest & span(0, window)
        ports += (
            [first + step for step in range(window) if not near >> step & 1] if near else range(first, first + window)
        )
        rest, first = rest >> window, first + window
    return ports
