"""The changes that an admin may ask about: how each is written, and the sentence that says it. Pure.

vc:vision:+8                  VC vision gets 8 more GPUs, guaranteed and at most
vc:vision:guarantee:-4        the guarantee alone; ``ceiling`` likewise
node:gpu-03:drain             cordon, return or remove likewise
node:new:add:8:A100:64:512    a new node of 8 A100, 64 cores and 512 GB; without them as large as the largest node
job:lena~bert:evict           it waits again in its old place; ``stop`` ends it
job:lena~bert:priority:50
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from base.core import words
from base.core.errors import BadRequest
from clusters.vcs.rules import MOST_PRIORITY, is_name

MOST = 8  # changes tried at once
_GPUS, _GPUS_OF_NODE, _CORES, _GIGABYTES = 100_000, 64, 10_000, 100_000  # at most
_NUMBER = re.compile(r"[+-]?[0-9]{1,7}")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
BOTH, GUARANTEE, CEILING = "both", "guarantee", "ceiling"
BECOMES = {
    "drain": "is drained",
    "cordon": "is cordoned",
    "return": "is back in service",
    "remove": "is removed",
}
ENDS = {"evict": "is evicted", "stop": "is stopped"}
_WORDS = {BOTH: "", GUARANTEE: " guaranteed", CEILING: " at most"}


@dataclass(frozen=True, slots=True)
class VcGets:
    """``of`` says whether its guarantee, its ceiling or both change."""

    vc: str
    gpus: int
    of: str = BOTH

    @property
    def text(self) -> str:
        return f"vc:{self.vc}:{'' if self.of == BOTH else self.of + ':'}{self.gpus:+}"

    @property
    def sentence(self) -> str:
        more = "more" if self.gpus > 0 else "fewer"
        return (
            f"VC {self.vc} gets {abs(self.gpus):,} {more} {'GPU' if abs(self.gpus) == 1 else 'GPUs'}{_WORDS[self.of]}"
        )


@dataclass(frozen=True, slots=True)
class NodeBecomes:
    node: str
    to: str

    @property
    def text(self) -> str:
        return f"node:{self.node}:{self.to}"

    @property
    def sentence(self) -> str:
        return f"Node {self.node} {BECOMES[self.to]}"


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """``cpus`` and ``memory_gb`` of 0: as many as the largest registered node has."""

    node: str
    gpus: int
    gpu_type: str = ""
    cpus: int = 0
    memory_gb: int = 0

    @property
    def text(self) -> str:
        parts = [self.gpu_type, *(str(each) if each else "" for each in (self.cpus, self.memory_gb))]
        return f"node:{self.node}:add:{self.gpus}:{':'.join(parts)}".rstrip(":")

    @property
    def sentence(self) -> str:
        return f"Node {self.node} is added with {words.count(self.gpus, f'{self.gpu_type} GPU'.strip())}"


@dataclass(frozen=True, slots=True)
class JobBecomes:
    """``job`` is user/name, as in all sentences. ``to`` is of ENDS, or empty where it gets a ``priority``."""

    job: str
    to: str = ""
    priority: int = 0

    @property
    def text(self) -> str:
        return f"job:{self.job.replace('/', '~', 1)}:{self.to or f'priority:{self.priority}'}"

    @property
    def sentence(self) -> str:
        return f"Job {self.job} {ENDS[self.to] if self.to else f'has priority {self.priority}'}"


AskedChange = VcGets | NodeBecomes | NodeAdded | JobBecomes


def read_all(texts: Sequence[str]) -> list[AskedChange]:
    """Raises BadRequest with a sentence that names the change which cannot be read."""
    if len(texts) > MOST:
        raise BadRequest(f"At most {MOST} changes can be tried at once; these are {len(texts)}.")
    return [read(text) for text in texts]


def read(text: str) -> AskedChange:
    """Raises BadRequest with a sentence."""
    kind, _, rest = text.strip().partition(":")
    name, _, what = rest.partition(":")
    reader = _READERS.get(kind)
    if reader is None or not name:
        raise _wrong(text, "it must begin with vc:, node: or job: and a name")
    return reader(text, name.strip(), what.strip())


def _vc(text: str, name: str, what: str) -> AskedChange:
    if not is_name(name):
        raise _wrong(text, "the name of a virtual cluster has letters, digits and _ only")
    of, _, number = what.rpartition(":")
    if of not in ("", BOTH, GUARANTEE, CEILING):
        raise _wrong(text, "only the guarantee or the ceiling of a virtual cluster can change")
    gpus = _number(text, number, "GPUs", -_GPUS, _GPUS)
    if not gpus:
        raise _wrong(text, "0 GPUs more are no change")
    return VcGets(name, gpus, of or BOTH)


def _node(text: str, name: str, what: str) -> AskedChange:
    if not _NODE.fullmatch(name):
        raise _wrong(text, "that is no name of a node")
    if what in BECOMES:
        return NodeBecomes(name, what)
    does, _, size = what.partition(":")
    if does != "add":
        raise _wrong(text, f"a node can {', '.join(BECOMES)} or add")
    parts = [part.strip() for part in size.split(":")]
    if len(parts) > 4 or len(size) > 100:
        raise _wrong(text, "a new node is written node:NAME:add:GPUS:TYPE:CORES:GB")
    gpus, kind, cpus, memory = parts + [""] * (4 - len(parts))
    return NodeAdded(
        name,
        _number(text, gpus, "GPUs", 0, _GPUS_OF_NODE),
        kind,
        _number(text, cpus or "0", "cores", 0, _CORES),
        _number(text, memory or "0", "GB", 0, _GIGABYTES),
    )


def _job(text: str, name: str, what: str) -> AskedChange:
    title = name if "/" in name else name.replace("~", "/", 1)
    if "/" not in title.strip("/"):
        raise _wrong(text, "a job is written user~name")
    if what in ENDS:
        return JobBecomes(title, what)
    does, _, value = what.partition(":")
    if does != "priority":
        raise _wrong(text, f"a job can {', '.join(ENDS)} or have a priority")
    return JobBecomes(title, priority=_number(text, value, "priority", -MOST_PRIORITY, MOST_PRIORITY))


_READERS: dict[str, Callable[[str, str, str], AskedChange]] = {"vc": _vc, "node": _node, "job": _job}


def _number(text: str, number: str, what: str, least: int, most: int) -> int:
    if not _NUMBER.fullmatch(number) or not least <= int(number) <= most:
        raise _wrong(text, f"{what} must be a whole number from {least:,} to {most:,}")
    return int(number)


def _wrong(text: str, why: str) -> BadRequest:
    shown = text if len(text) <= 80 else f"{text[:80]}..."
    return BadRequest(f"The change {shown} cannot be read: {why}.")
