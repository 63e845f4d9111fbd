"""Makes an image of a container that has ended, and removes such images."""

from __future__ import annotations

from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound
from docker.utils import parse_repository_tag

from clusters.engines.docker.connect import CONNECT, ask, checked, url
from clusters.engines.docker.errors import translated
from clusters.engines.runtime import FaultReason, RuntimeFault, gone

_ADDING_UP = 60.0  # seconds in which an engine says how much a container has written
_COPYING = 900.0
_NO_CHECK = "HEALTHCHECK NONE"  # the container may have had one, and an image would hand it on


def keep(api: APIClient, endpoint: str, name: str, image: str, most: int) -> int:
    repository, tag = parse_repository_tag(image)
    with translated(endpoint):
        try:
            size = int(ask(api, f"/containers/{name}/json", {"size": 1}, timeout=_ADDING_UP).json().get("SizeRw") or 0)
            if size > most:
                says = f"{name} has written {size >> 20:,} MB; no more than {most >> 20:,} MB are kept."
                raise RuntimeFault(says, reason=FaultReason.REFUSED)
            params = {"container": name, "repo": repository, "tag": tag, "pause": "0", "changes": _NO_CHECK}
            checked(api.post(url(api, "/commit"), params=params, json={}, timeout=(CONNECT, _COPYING)))
        except NotFound:
            raise gone(name) from None
    return size


def drop_image(api: APIClient, image: str) -> None:
    try:
        api.remove_image(image, force=True)
    except ImageNotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # a container uses it
            raise
