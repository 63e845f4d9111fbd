"""The kinds of notices: what each is called, and which Event of the ledger it is made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoticeKind:
    """``title`` begins a rule and a heading: "My job fails". ``about`` is what it is about. Those ``for_admins`` go to
    all admins, others to the user whom they concern. ``bad``: it is drawn as a failure."""

    name: str
    title: str
    about: str = "job"
    for_admins: bool = False
    bad: bool = False
    by_rule: bool = True

    @property
    def type(self) -> str:
        """What webhooks call it: ``job.failed``."""
        return f"{self.about}.{self.name}"


_ALL = (
    NoticeKind("started", "My job starts"),
    NoticeKind("succeeded", "My job succeeds"),
    NoticeKind("failed", "My job fails", bad=True),
    NoticeKind("stopped", "My job is stopped by somebody else"),
    NoticeKind("evicted", "My job is evicted", bad=True),
    NoticeKind("failing", "My job fails again and again", bad=True),
    NoticeKind("idle", "My GPUs are idle"),
    NoticeKind("quota", "My files are nearly at their quota", about="files"),
    NoticeKind("lost", "A node does not answer", about="node", for_admins=True, bad=True),
    NoticeKind("certificate", "A certificate is about to end", about="certificate", for_admins=True),
    # Of notices themselves: no rule is needed.
    NoticeKind("unreachable", "A channel does not work", about="channel", bad=True, by_rule=False),
    NoticeKind("digest", "What was held back", about="digest", by_rule=False),
    NoticeKind("test", "A test", about="test", by_rule=False),
    NoticeKind("confirmation", "Whether an address agrees", about="address", by_rule=False),
)
KINDS = {kind.name: kind for kind in _ALL}
RULED = tuple(kind.name for kind in _ALL if kind.by_rule)
OF_JOBS = tuple(kind.name for kind in _ALL if kind.about == "job")
ENDS = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "stopped"}
_OF_EVENT = {"job.placed": "started", "job.evicted": "evicted", "job.failing": "failing"}
EVENTS = ("job.ended", *_OF_EVENT)  # the Events that notices are made of


def kind_of(event: str, after: str) -> str:
    """The kind of the notice that is made of an Event of EVENTS; ``after`` is the state that it tells of."""
    return ENDS[after] if event == "job.ended" else _OF_EVENT[event]
