"""The address and the scheme a client came with, told by a proxy in front that LONGSHORE_TRUSTED_PROXIES names.

Every part of the portal sees them: pages, API, streams and files; the ledger, the limits of wrong passwords, redirects.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


def believing(application: Any) -> Any:
    """The ASGI application behind those proxies; of anybody else the headers say nothing."""

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        client = scope.get("client")
        if client and not _is_address(client[0]):
            scope["client"] = None  # a proxy may say "unknown"
        await application(scope, receive, send)

    return ProxyHeadersMiddleware(behind, [str(network) for network in settings.TRUSTED_PROXIES])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
