"""What a start script left about the end of its command, for exit codes that an engine cannot be trusted with.

Docker 20.10 gives 255 to a container that was lost with its host, and 0 to one that had just ended when its engine
died: the engine had forgotten its process, but not written down its code. The script makes EXIT_FILE when it begins and
writes the code into it at the very end; where it could not make the file, the engine's word stands. Who told a
container to end is not in its state, but among the events that a running engine remembers.
"""

from __future__ import annotations

import io
import json
import tarfile
from datetime import datetime, timedelta

from docker import APIClient
from docker.errors import NotFound

from clusters.engines.docker.connect import ask
from clusters.engines.runtime import EXIT_FILE, OUR_CODES, TOLD_TO_END, ContainerStatus, read_script

_HEAD = 4096  # bytes of a tar: its headers and a number


def with_own_exit(api: APIClient, status: ContainerStatus, unbroken_since: datetime | None) -> ContainerStatus:
    """The status with what the start script says of the end, asked where the engine may be wrong. ``unbroken_since``:
    when this process last began to hear from the engine without a gap, by the engine's clock; an end with 0 is believed
    of what started later. So is it that nobody but the container itself told it to end, if the engine has no event of
    that: its events go when it ends."""
    believed = unbroken_since is not None and status.started_at is not None and status.started_at >= unbroken_since
    if status.exit_code == TOLD_TO_END:
        inside = believed and not _was_told(api, status)
        return read_script(status, _written(api, status.id), told_inside=inside)
    if status.lost or status.exit_code in OUR_CODES or (status.exit_code == 0 and not believed):
        return read_script(status, _written(api, status.id))
    return status


def _was_told(api: APIClient, status: ContainerStatus) -> bool:
    """Whether the engine sent it a signal, as `docker stop` makes it do. It writes that event down right after the
    signal, perhaps after the end, so the stream is read for a moment longer when there is none."""
    if status.started_at is None or status.finished_at is None:
        return True
    since, until = status.started_at - timedelta(seconds=1), status.finished_at + timedelta(seconds=1)
    filters = json.dumps({"type": ["container"], "container": [status.id], "event": ["kill"]})
    asked = {"since": f"{since.timestamp():.6f}", "until": f"{until.timestamp():.6f}", "filters": filters}
    with ask(api, "/events", asked, stream=True) as answer:
        return any(line.strip() for line in answer.iter_lines())


def _written(api: APIClient, id: str) -> str | None:
    """What is in the file, as far as a number needs; None without one. Whatever a command put there is not read."""
    path = f"/containers/{id}/archive"
    try:
        with ask(api, path, {"path": EXIT_FILE}, stream=True) as answer:
            head = b""
            for piece in answer.iter_content(_HEAD):
                head += piece
                if len(head) >= _HEAD:
                    break
    except NotFound:
        return None
    with tarfile.open(fileobj=io.BytesIO(head)) as tar:
        member = tar.next()
        file = tar.extractfile(member) if member and member.isfile() else None
        return file.read(8).decode("ascii", "replace").strip() if file else ""
