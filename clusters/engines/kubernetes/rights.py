"""The rights that Longshore needs in a cluster: one list, of which the manifest of its Role is made and which a cluster
is asked for before it is added.

Pure: values and sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

OLDEST = (1, 20)


@dataclass(frozen=True, slots=True)
class ClusterRight:
    """Verbs on a resource of the core group. ``needed_for``: what does not work without it, for people."""

    resource: str
    verbs: tuple[str, ...]
    needed_for: str
    is_optional: bool = False  # works without it, less well


# Of the namespace in which containers run.
NAMESPACED = (
    ClusterRight("pods", ("create", "delete", "get", "list", "watch"), "start, follow and remove tasks"),
    ClusterRight("pods/log", ("get",), "read logs"),
    # Which of the two a websocket needs depends on the version of Kubernetes.
    ClusterRight("pods/exec", ("create", "get"), "open terminals, measure tasks and read how they ended"),
    ClusterRight("secrets", ("create", "delete", "get"), "hand start scripts, keys and passwords to tasks"),
)
# Of the whole cluster: nodes belong to no namespace, and what others take on them is asked for in all of them.
CLUSTER_WIDE = (
    ClusterRight("nodes", ("list", "watch"), "see the nodes"),
    ClusterRight("pods", ("list",), "count what other workloads take on the nodes", is_optional=True),
)


def missing(rule: ClusterRight, verbs: list[str], namespace: str) -> str:
    """The sentence about rights that the account does not have."""
    where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
    may = f"{', '.join(verbs[:-1])} and {verbs[-1]}" if len(verbs) > 1 else verbs[0]
    return f"It may not {may} {rule.resource} {where}: Longshore needs that to {rule.needed_for}."


def too_old(major: str, minor: str) -> bool:
    """Whether a server of this version is older than those that Longshore speaks with."""
    numbers = "".join(filter(str.isdigit, major)), "".join(filter(str.isdigit, minor))
    return all(numbers) and (int(numbers[0]), int(numbers[1])) < OLDEST
