"""How soon pages and API answer, by clients and by processes, and what the portal costs at rest."""

from __future__ import annotations

from typing import Any

# Where bare_django answers, and below it plain_rest. Who imports one of them has another Django from then on.
CONSTANT = "/constant"
TOKEN = "0123456789abcdef0123456789abcdef01234567"


def served(application: Any) -> Any:
    """The same with the start and the end that an ASGI server tells of, in which it does nothing."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        for told in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{told}.complete"})

    return call
