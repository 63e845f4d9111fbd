"""Says, behind the end of an attempt's logs, that the job goes on with another attempt.

event: newer          {"attempt"}: the job has this one by now
event: over           {}: no other attempt will come
: comment             every 15 s, so that proxies keep the connection
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from django.db import DatabaseError

from base.core.threads import in_thread
from base.wakes.wake import hub
from jobs.logs.together.batches import event
from jobs.models import Job
from jobs.planning.lifecycle import JOB_END_STATES

HEARTBEAT = 15.0  # seconds between two comments
INTERVAL = 1.0  # seconds between two looks


async def with_what_follows(logs: AsyncGenerator[str], job_id: int, attempt: int) -> AsyncGenerator[str]:
    """The events of these logs, then one of those above. ``attempt``: the newest that is shown."""
    async with aclosing(logs) as shown:
        async for told in shown:
            yield told
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    beat_at = time.monotonic()
    hub.join(loop, woken)
    try:
        while True:
            woken.clear()
            if told := await in_thread(_event, job_id, attempt):
                yield told
                return
            if time.monotonic() - beat_at > HEARTBEAT:
                beat_at = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(INTERVAL)
            await woken.wait()  # the hub wakes everybody every few seconds
    finally:
        hub.leave(woken)


def _event(job_id: int, attempt: int) -> str:
    """The event, which is empty while it is not known. A database that is away says nothing."""
    try:
        row = Job.objects.filter(pk=job_id).values_list("attempt_number", "state").first()
    except DatabaseError:
        return ""
    number, state = row or (attempt, None)
    if number > attempt:
        return event("newer", {"attempt": number})
    return event("over", {}) if state is None or state in JOB_END_STATES else ""
