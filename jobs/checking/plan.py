"""Writes the jobs by which the cluster is checked, and judges by their logs and ends what works on each node. Pure.

Two jobs go through each node. The first serves a small file on its port. When all of them run, the second fetches
those of some other nodes, counts its GPUs, prints what it saw, and fails: on purpose and twice, so that it is retried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clusters.placement.fit import OWN_LABEL, NodeView, gpus_to_give
from clusters.vcs.rules import DEFAULT_VC

PREFIX = "check-cluster-"
NAMES = rf"^{PREFIX}[0-9]{{6}}-(serve|look)-"  # an admin may have other jobs whose names begin like that
PARTS = ("start", "ports", "peers", "ssh", "gpu", "log", "retry")
CPUS, MEMORY_MB = 1, 100  # of each job
PEERS = 5  # other nodes that each node is asked to reach
ON_PURPOSE = 7  # the exit code of the second job
# Not `wget -T`: with it a statically linked busybox crashes.
_SERVE = """
mkdir -p /tmp/www && echo {node} > /tmp/www/name && echo "serving for {node}"
exec httpd -f -p $PAI_CONTAINER_HOST_web_PORT_LIST -h /tmp/www
"""
_LOOK = """
look() {{
  [ "$(timeout 4 wget -q -O - http://$2:$3/name)" = "$1" ] && echo "peer $1 ok" || echo "peer $1 failed"
  [ "$4" = 0 ] || {{ nc -w 4 $2 $4 </dev/null | head -c 4 | grep -q SSH- && echo "ssh $1 ok" || echo "ssh $1 failed"; }}
}}
{looks}
wait
echo "gpus $(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)"
echo "seen by {node}"
exit {code}
"""
_ADVICE = {
    "start": "Its events on the job's page say more; the node's page has its marks.",
    "ports": "Open the node's port range between the nodes, and check the node's address.",
    "peers": "Check the routes and the firewall of this node.",
    "ssh": "Does the image start sshd, and is its port open between the nodes?",
    "gpu": "Install nvidia-container-toolkit there and restart Docker, or change how many GPUs the node declares.",
    "log": "Is the store up, and do the workers reach this node's Docker?",
    "retry": "Look at the job's attempts; the scheduler may be busy.",
}


@dataclass(frozen=True, slots=True)
class JobAddress:
    """Where the first job of a node can be reached. ``ssh``: the port of its sshd, 0 without one."""

    node: str
    address: str
    port: int
    ssh: int = 0


@dataclass(frozen=True, slots=True)
class SecondJob:
    """What became of the second job of a node. ``log``: what it printed; None when nobody could read it."""

    log: str | None
    attempts: int
    exit_code: int | None
    gpus: int = 0  # that it asked for


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """One node. ``failed`` is {part: sentence}; ``untried`` {part: why}. A row with ``skipped`` was not checked."""

    node: str
    failed: Mapping[str, str] = field(default_factory=dict)
    untried: Mapping[str, str] = field(default_factory=dict)
    skipped: str = ""

    @property
    def works(self) -> bool:
        return not self.failed and not self.skipped

    def cell(self, part: str) -> str:
        """ok, failed or –."""
        if self.skipped or part in self.untried:
            return "–"
        return "failed" if part in self.failed else "ok"

    @property
    def cells(self) -> list[str]:
        return [self.cell(part) for part in PARTS]

    @property
    def says(self) -> list[str]:
        """A sentence for each thing that failed, with what to do."""
        if self.skipped:
            return [self.skipped]
        return [f"{part}: {why} {_ADVICE[part]}" for part, why in self.failed.items()]


class PartResult(NamedTuple):
    """What was found of one part: why it failed, or why nobody tried it. Both are empty where it works."""

    failed: str = ""
    untried: str = ""


WORKS = PartResult()


def why_not(node: NodeView) -> str:
    """Why a node is not checked now; empty when it is. Both jobs run at once, and nothing that runs is evicted for
    them: they only go where room for both is free."""
    if not node.offered:
        return f"Not checked: {node.why_not}."
    if node.cpus - node.used_cpus < 2 * CPUS or node.memory_mb - node.used_memory_mb < 2 * MEMORY_MB:
        return f"Not checked: {2 * CPUS} free cores and {2 * MEMORY_MB} MB are needed. Try again when it has them."
    return ""


def serving(node: NodeView, stamp: str, image: str, seconds: int) -> dict[str, Any]:
    """Return the config of a node's first job."""
    return _config(node, f"{stamp}-serve", _SERVE.format(node=node.name), image, seconds)


def looking(node: NodeView, stamp: str, image: str, seconds: int, peers: Sequence[JobAddress]) -> dict[str, Any]:
    """Return the config of a node's second job."""
    looks = "\n".join(f"look {peer.node} {peer.address} {peer.port} {peer.ssh} &" for peer in peers)
    command = _LOOK.format(looks=looks, node=node.name, code=ON_PURPOSE)
    config = _config(node, f"{stamp}-look", command, image, seconds)
    config["taskRoles"][0]["gpuNumber"] = gpus_of(node)
    return {**config, "retryCount": 1}


def gpus_of(node: NodeView) -> int:
    """How many it is asked for: one, where one is free."""
    return 1 if gpus_to_give(node) else 0


def peers_of(node: str, served: Sequence[JobAddress]) -> list[JobAddress]:
    """The next ones in a ring: each node is reached by as many others as it reaches itself."""
    names = [peer.node for peer in served]
    at = names.index(node) if node in names else 0
    ring = [*served[at:], *served[:at]]
    return [peer for peer in ring if peer.node != node][:PEERS]


def judge(
    node: str, why_not: str, asked: Sequence[JobAddress], seen: Mapping[str, SecondJob], served: Sequence[JobAddress]
) -> NodeCheck:
    """Return the row of one node. ``why_not``: why its first job does not run, or empty. ``asked``: whom its second job
    was to reach. ``seen`` and ``served`` are of all nodes."""
    if why_not:
        return NodeCheck(node, {"start": why_not}, dict.fromkeys(PARTS[1:], "It did not start."))
    mine = seen.get(node)
    verdicts = {"ports": _ports(node, seen, served)}
    if mine is None or mine.log is None:
        verdicts["log"] = PartResult("The log of its job could not be read in time.")
        nothing = PartResult(untried="Nothing was seen of its second job.")
        verdicts |= dict.fromkeys(("peers", "ssh", "gpu", "retry"), nothing)
    else:
        whole = f"seen by {node}" in mine.log
        verdicts["log"] = PartResult("" if whole else "The log of its job is not complete.")
        verdicts["peers"] = _peers(mine.log, asked, seen, served)
        verdicts["ssh"] = _ssh(mine.log, asked, seen)
        verdicts["gpu"], verdicts["retry"] = _gpu(mine.log, mine.gpus), _retry(mine)
    return NodeCheck(
        node,
        {part: result.failed for part, result in verdicts.items() if result.failed},
        {part: result.untried for part, result in verdicts.items() if result.untried},
    )


def _ports(node: str, seen: Mapping[str, SecondJob], served: Sequence[JobAddress]) -> PartResult:
    """They fail where others tried and nobody got through, and one of them reached another node or had no other to
    try."""
    if len(served) <= 1:
        return PartResult(untried="There is no other node.")
    logs = {name: job.log for name, job in seen.items() if name != node and job.log and f"peer {node} " in job.log}
    silent = sorted(name for name, log in logs.items() if f"peer {node} failed" in log)
    if not logs or len(silent) < len(logs):
        return WORKS
    cut_off = [name for name in silent if len(served) > 2 and " ok" not in logs[name]]
    if len(cut_off) == len(silent):
        return WORKS  # these reach nobody at all: it is their own fault
    where = next(job for job in served if job.node == node)
    return PartResult(f"Its port at {where.address}:{where.port} is not reached from {', '.join(silent)}.")


def _peers(
    log: str, asked: Sequence[JobAddress], seen: Mapping[str, SecondJob], served: Sequence[JobAddress]
) -> PartResult:
    """It fails where none of those that it was to reach answers, and they are not to blame: others reach one of them,
    or nobody reaches anybody."""
    if not asked:
        return PartResult(untried="There is no other node.")
    silent = [peer.node for peer in asked if f"peer {peer.node} ok" not in log]
    reached = {name for job in seen.values() for name in re.findall(r"^peer (\S+) ok$", job.log or "", re.MULTILINE)}
    is_cut_off = bool(reached.intersection(silent)) or (not reached and len(served) > 2)
    return PartResult(f"It reaches none of {', '.join(silent)}.") if len(silent) == len(asked) and is_cut_off else WORKS


def _ssh(log: str, asked: Sequence[JobAddress], seen: Mapping[str, SecondJob]) -> PartResult:
    if not any(_reached_by_ssh(job.log) for job in seen.values()):
        return PartResult(untried="No sshd answers anywhere: the image has none.")
    return PartResult("The sshd of no other node answers.") if asked and not _reached_by_ssh(log) else WORKS


def _gpu(log: str, gpus: int) -> PartResult:
    if not gpus:
        return PartResult(untried="It has no GPU that is free.")
    return WORKS if f"gpus {gpus}\n" in log else PartResult(f"Its container was to have {gpus} GPU and did not.")


def _retry(mine: SecondJob) -> PartResult:
    if (mine.attempts, mine.exit_code) == (2, ON_PURPOSE):
        return WORKS
    return PartResult(f"Its job was to fail twice with {ON_PURPOSE}: attempt {mine.attempts}, exit {mine.exit_code}.")


def _reached_by_ssh(log: str | None) -> list[str]:
    return re.findall(r"^ssh (\S+) ok$", log or "", re.MULTILINE)


def _config(node: NodeView, name: str, command: str, image: str, seconds: int) -> dict[str, Any]:
    ports = [{"label": "web", "beginAt": 0, "portNumber": 1}]
    role = {"name": "check", "taskNumber": 1, "cpuNumber": CPUS, "memoryMB": MEMORY_MB, "gpuNumber": 0}
    return {
        "virtualCluster": node.dedicated_to or DEFAULT_VC,  # no other one's jobs start on a node of its own
        "jobName": f"{PREFIX}{name}-{re.sub(r'[^A-Za-z0-9._-]', '-', node.name)}",
        "image": image,
        "taskRoles": [{**role, "portList": ports, "command": command}],
        "extras": {"nodeLabels": {OWN_LABEL: node.name}, "maxRunSeconds": seconds, "priority": 100},
    }
