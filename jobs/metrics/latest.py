"""What was measured last of a node, of its GPUs and of its tasks, in one small file beside the node's ring files.

Whoever wants to know how all is now reads a file for each node, not one for each GPU and task besides: ``/metrics`` is
asked every few seconds. The sampler writes it after the samples that it tells of.

Values have a key: that of a node's the name of the column, as in rates.OF_A_NODE, and those of its GPUs and tasks one
by ``of_gpu`` and ``of_task``. All are in one dict, not in one of each GPU, as there are a hundred thousand of them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter
from pydantic_core import to_json

from jobs.metrics import places
from jobs.metrics.layout import Mean, RingSummary
from jobs.metrics.rates import idle_since, is_fresh

_OF_A_TASK = ("cpu", "memory", "Util", "Memory")  # how its columns end of which somebody asks how they are now
_Moment = Annotated[int, Field(ge=0, lt=2**40)]


@dataclass(frozen=True, slots=True)
class Latest:
    """What is known of a node. Times are seconds since 1970. ``at``: when something was measured last, 0: never;
    ``known``: the keys whose value is older; ``busy``: those that were not busy when they were known, see Mean.busy."""

    at: _Moment = 0
    last: dict[str, float] = field(default_factory=dict)
    known: dict[str, _Moment] = field(default_factory=dict)
    busy: dict[str, _Moment] = field(default_factory=dict)

    def now(self, key: str, now: float) -> float | None:
        """The last value, if it is not old."""
        return self.last.get(key) if is_fresh(self.known.get(key, self.at), now) else None

    def idle_since(self, key: str, now: float, after: float) -> int:
        """As rates.idle_since."""
        known = self.known.get(key, self.at)
        return idle_since(known, self.busy.get(key, known), now, after) if key in self.last else 0


_FILE = TypeAdapter(Latest)


def of_gpu(id: str, column: str) -> str:
    """The key of a column of rates.OF_A_NODES_GPU."""
    return f"gpu/{id}/{column}"


def of_task(id: int, column: str) -> str:
    """The key of a column of a task, by the id of its row."""
    return f"task/{id}/{column}"


def write(
    node: str, at: int, of_node: RingSummary, gpus: Mapping[str, RingSummary], tasks: Mapping[int, RingSummary]
) -> None:
    """Tell what was measured at a moment. Not every round measures every GPU and task, so what is not in it stays until
    it is old. Raises OSError."""
    path = Path(places.of_latest(node))
    before = read_file(path)
    told = {
        key: (mean.last, mean.known, mean.busy)
        for key, mean in _means(of_node, gpus, tasks)
        if mean.count and is_fresh(mean.known, at)
    }
    for key in before.last.keys() - told.keys():
        known = before.known.get(key, before.at)
        if is_fresh(known, at):
            told[key] = before.last[key], known, before.busy.get(key, known)
    latest = {
        "at": at,
        "last": {key: last for key, (last, _, _) in told.items()},
        "known": {key: known for key, (_, known, _) in told.items() if known != at},
        "busy": {key: busy for key, (_, known, busy) in told.items() if busy != known},
    }
    new = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(to_json(latest))
        new.replace(path)  # whoever looks finds the old one or the whole new one
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def read(node: str) -> Latest:
    """What is known of the node; nothing where nobody has measured anything there."""
    return read_file(places.of_latest(node))


def read_file(path: Path | str) -> Latest:
    """Nothing where something else lies in its place: the next sample replaces it."""
    try:
        with open(path, "rb", buffering=0) as file:
            return _FILE.validate_json(file.read())
    except (OSError, ValueError):
        return Latest()


def _means(
    of_node: RingSummary, gpus: Mapping[str, RingSummary], tasks: Mapping[int, RingSummary]
) -> Iterator[tuple[str, Mean]]:
    yield from of_node.columns.items()
    for gpu, summary in gpus.items():
        yield from ((of_gpu(gpu, name), mean) for name, mean in summary.columns.items())
    for task, summary in tasks.items():
        columns = summary.columns.items()
        yield from ((of_task(task, name), mean) for name, mean in columns if name.endswith(_OF_A_TASK))
