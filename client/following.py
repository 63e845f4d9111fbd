"""Follows the logs of a job while they are written, attempt after attempt, until it has ended.

Each stream is read by its place in bytes, so nothing is lost or comes twice, also where the portal was away meanwhile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Callable

from .errors import NotThere, PortalAway, WrongConfig
from .transport import PATIENCE, Transport, quoted
from .words import ENDS, LogBytes, LogText

QUICK, SLOW, EACH = 0.3, 2.0, 0.03  # seconds between two looks: at first, when nothing comes, and more for each stream
LAST = 20.0  # seconds that an ended job's log may take to be complete

Tell = Callable[[str], None]


class FollowedLog:
    """One stream of one task: how far it was read."""

    def __init__(self, role: str, index: int, name: str) -> None:
        self.role, self.index, self.name = role, index, name
        self.offset, self.ended = 0, False

    @property
    def task(self) -> str:
        return f"{self.role}-{self.index}"


class Follower:
    """``tell`` gets a sentence when what is waited for changes: a turn, a node, a portal that is away. ``status`` is
    the last that was seen."""

    def __init__(
        self, transport: Transport, path: str, *, task: str = "", tell: Tell = print, patience: float = PATIENCE
    ) -> None:
        self._transport, self._path = transport, path
        self._task, self._tell, self._patience = task, tell, patience
        self._attempt, self._streams, self._said = 1, dict[tuple[str, int, str], FollowedLog](), ""
        self._heard: dict[str, str] = {}
        self.status: dict[str, Any] = {}

    @property
    def tasks(self) -> int:
        """Of how many tasks logs are followed."""
        return len({stream.task for stream in self._streams.values()})

    def pieces(self) -> Iterator[LogBytes]:
        pause, until = QUICK, float("inf")
        while True:
            self._look()
            came = False
            for stream in [each for each in self._streams.values() if not each.ended]:
                for piece in self._more(stream):
                    came = True
                    yield piece
            open_ = [stream for stream in self._streams.values() if not stream.ended]
            if not self._is_over():
                pause = QUICK if came else min(SLOW, pause * 1.5)
            elif open_ and time.monotonic() < (until := min(until, time.monotonic() + LAST)):
                pause = QUICK
            else:
                if open_:
                    self._tell(f"The end of the log of {open_[0].task} cannot be read now.")
                if not self._has_newer():
                    return
                self._attempt, self._streams, until = self._attempt + 1, {}, float("inf")
                self._say(f"Attempt {self._attempt} begins.")
                continue
            time.sleep(pause + EACH * len(open_))

    def _has_newer(self) -> bool:
        return bool(self.status["retries"] + 1 > self._attempt)

    def _is_over(self) -> bool:
        """Whether nothing more will be written in the attempt that is followed."""
        return self.status["state"] in ENDS or self._has_newer()

    def _look(self) -> None:
        detail = self._ask("")
        self.status = detail["jobStatus"]
        if self._has_newer():
            detail = self._ask(f"/attempts/{self._attempt}")
        else:
            self._say_again("turn", (self.status.get("waitingReason") or {}).get("summary", ""))
        for role, told in detail["taskRoles"].items():
            for task in told["taskStatuses"]:
                for name in ("stdout", "stderr"):
                    key = role, task["taskIndex"], name
                    if key not in self._streams and self._task in ("", f"{role}-{task['taskIndex']}"):
                        self._streams[key] = FollowedLog(*key)

    def _ask(self, below: str) -> Any:
        transport, path = self._transport, self._path + below
        return transport.patiently(lambda: transport.json("GET", path), self._away, self._patience)

    def _more(self, stream: FollowedLog) -> Iterator[LogBytes]:
        """What is new of it."""
        where = f"{self._path}/{quoted('taskRoles', stream.role, stream.index, 'logs', stream.name)}"
        before, size, is_complete = -1, stream.offset + 1, False
        try:
            while before < stream.offset < size:  # an answer may break off; one without a byte is for the next look
                before = stream.offset
                answer = self._transport.pieces(where, attempt=self._attempt, offset=stream.offset)
                headers = next(answer)
                size, is_complete = int(headers["X-Log-Size"]), headers["X-Log-Complete"] == "true"
                for data in answer:
                    stream.offset += len(data)
                    yield LogBytes(stream.task, self._attempt, stream.name, data)
            stream.ended = is_complete and stream.offset >= size
        except NotThere:
            stream.ended = self._is_over()
        except PortalAway as error:  # of the portal itself the next look tells; its node is told when it stays so
            self._say_again(stream.task + stream.name, str(error))

    def _away(self, reason: str) -> None:
        self._tell(f"{reason} The job goes on; this waits." if reason else "The portal is back.")

    def _say_again(self, what: str, sentence: str) -> None:
        """Say what was so at the last look too: of a job that starts at once nothing is said."""
        if sentence and sentence == self._heard.get(what):
            self._say(sentence)
        self._heard[what] = sentence

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            self._tell(sentence)


class LineCutter:
    """Makes lines of the pieces of each stream. The rest of one that has no line end is told at the end."""

    def __init__(self) -> None:
        self._rest: dict[tuple[str, int, str], bytes] = {}

    def lines(self, piece: LogBytes) -> Iterator[LogText]:
        key = piece[:3]
        *whole, rest = (self._rest.pop(key, b"") + piece.data).split(b"\n")
        if rest:
            self._rest[key] = rest
        for line in whole:
            yield LogText(*key, shown(line))

    def rest(self) -> Iterator[LogText]:
        for key, rest in self._rest.items():
            yield LogText(*key, shown(rest))


def shown(line: bytes) -> str:
    """A line as it stands in the end: of a progress bar that overwrites itself its last state."""
    states = [state for state in line.rstrip(b"\r").split(b"\r") if state]
    return (states[-1] if states else b"").decode(errors="replace")


def expression(grep: str) -> re.Pattern[str]:
    """Raises WrongConfig, as the portal does where it looks itself."""
    try:
        return re.compile(grep, re.IGNORECASE if grep == grep.lower() else 0)
    except re.error as error:
        raise WrongConfig(f"This is no regular expression: {error}.") from None


def follow_lines(transport: Transport, path: str, *, grep: str = "", task: str = "") -> Iterator[LogText]:
    cutter, follower = LineCutter(), Follower(transport, path, task=task, tell=lambda _: None)
    wanted = expression(grep)
    for piece in follower.pieces():
        yield from (line for line in cutter.lines(piece) if wanted.search(line.text))
    yield from (line for line in cutter.rest() if wanted.search(line.text))
