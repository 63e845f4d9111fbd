"""Why a job waits, as rows of it are made into answers and pages. The API's document is made of these types."""

from __future__ import annotations

from typing import Annotated, NotRequired, cast, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from clusters.placement.fit import Blocker

Milliseconds = int


class BlockerItem(TypedDict):
    kind: str
    sentence: str
    need: NotRequired[str]
    have: NotRequired[str]
    node: NotRequired[str]
    until: NotRequired[str]
    job: NotRequired[Annotated[str, Field(description="user~job")]]


BlockerItem.__doc__ = Blocker.__doc__


class Ahead(TypedDict):
    """A job that starts before this one."""

    name: str


class ReservedNodes(TypedDict):
    nodes: Annotated[list[str], Field(description="On which room is kept for the job.")]
    sentence: str


class Forecast(TypedDict):
    """Of ten such jobs one starts before ``p10``, five before ``p50``, nine before ``p90`` (milliseconds)."""

    p10: Milliseconds
    p50: Milliseconds
    p90: Milliseconds


class Reason(TypedDict):
    summary: str
    blockers: list[BlockerItem]
    position: NotRequired[Annotated[int, Field(description="In the queue of its virtual cluster; 1 is next.")]]
    ahead: Annotated[list[Ahead], Field(description="The first of those before it in the queue.")]
    reservation: NotRequired[ReservedNodes]
    forecast: NotRequired[Annotated[Forecast, Field(description="When it will start; absent where nobody can tell.")]]


class WaitingReason(Reason):
    notBefore: NotRequired[
        Annotated[Milliseconds, Field(description="Without a forecast: of ten such jobs one starts before, at most.")]
    ]


_OF_BLOCKER = tuple(get_type_hints(BlockerItem))


def blocker_item(blocker: Blocker) -> BlockerItem:
    """``kind`` and ``sentence``, and of the rest what it has."""
    return cast(BlockerItem, {name: value for name in _OF_BLOCKER if (value := getattr(blocker, name))})
