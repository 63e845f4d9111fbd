"""Which client and scheme the portal sees behind proxies."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

import pytest

from base.serving.connection import trusting_proxies


def seen(client: str, settings: Any, **headers: str) -> tuple[Any, str]:
    settings.TRUSTED_PROXIES = (ipaddress.ip_network("10.0.0.0/24"),)
    found = {}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.update(scope)

    coded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "client": (client, 5), "scheme": "http", "headers": coded}
    asyncio.run(trusting_proxies(application)(scope, None, None))
    return found["client"] and found["client"][0], found["scheme"]


@pytest.mark.parametrize(
    ("told", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("198.51.100.1, 192.0.2.7", "192.0.2.7"),  # the first was made up by the client itself
        ("192.0.2.7, 10.0.0.9", "192.0.2.7"),  # a proxy behind a proxy
        ("unknown", None),
    ],
)
def test_the_client_is_whom_the_nearest_proxy_met(settings: Any, told: str, client: str | None) -> None:
    assert seen("10.0.0.1", settings, x_forwarded_for=told, x_forwarded_proto="https") == (client, "https")


def test_of_anybody_else_the_headers_say_nothing(settings: Any) -> None:
    assert seen("10.0.1.1", settings, x_forwarded_for="192.0.2.7", x_forwarded_proto="https") == ("10.0.1.1", "http")
