"""Says where a page of a task has its address, and which page an address names. Pure.

Two forms. In the strong one each page has a host name of its own, so browsers keep all pages apart, from each other and
from the portal: below LONGSHORE_APPS_DOMAIN, or below ``localhost`` (which browsers take for this machine) for those
who visit the portal on the machine itself. In the other form all pages share one host name with a path for each: the
browser then sends the cookies of that name to all its ports, and lets the pages look into each other.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from jobs.config.web_pages import PREFIX, is_key

LOCAL = "localhost"
OWN = "/_longshore/"  # below it the portal itself answers, not the container
ENTER = f"{OWN}enter"


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of the same names, and the port on which pages are served. Addresses are ``scheme://host[:port]``;
    ``domain`` and ``url`` may be empty."""

    port: int
    domain: str = ""
    url: str = ""
    public_url: str = ""


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Where a page is: ``origin`` has no slash at its end, ``prefix`` is empty or ``/~/<key>``."""

    key: str
    origin: str
    prefix: str

    @property
    def is_alone(self) -> bool:
        """No other page, and not the portal, has its host name."""
        return not self.prefix

    @property
    def url(self) -> str:
        return f"{self.origin}{self.prefix}/"

    @property
    def enter(self) -> str:
        return f"{self.origin}{self.prefix}{ENTER}"


def place_for(setup: Setup, key: str, host: str, scheme: str) -> PagePlace:
    """Where somebody who visits the portal at this Host (``10.0.0.5:9186``) finds the page."""
    if setup.domain:
        base = urlsplit(setup.domain)
        return PagePlace(key, f"{base.scheme}://{key}.{base.netloc}", "")
    if setup.url:
        return PagePlace(key, setup.url, f"{PREFIX}{key}")
    name = host_name(host)
    if scheme == "http" and is_loopback(name) and is_loopback(urlsplit(setup.public_url).hostname or LOCAL):
        return PagePlace(key, f"http://{key}.{LOCAL}:{setup.port}", "")
    written = f"[{name}]" if ":" in name else name
    return PagePlace(key, f"{scheme}://{written}:{setup.port}", f"{PREFIX}{key}")


def place_of(setup: Setup, host: str, path: str, scheme: str) -> PagePlace | None:
    """Which page a request to the pages' origin is for; None when it names none."""
    if named := setup.domain or setup.url:
        scheme = urlsplit(named).scheme  # a proxy in front has the certificate
    origin = f"{scheme}://{host}"
    domain = urlsplit(setup.domain).hostname if setup.domain else LOCAL
    first, _, rest = host_name(host).partition(".")
    if rest and rest == domain:
        return PagePlace(first, origin, "") if is_key(first) else None
    if setup.domain or not path.startswith(PREFIX):
        return None
    key = path.removeprefix(PREFIX).partition("/")[0]
    return PagePlace(key, origin, f"{PREFIX}{key}") if is_key(key) else None


def host_name(host: str) -> str:
    """The name in a Host header, in lower case, without its port and brackets; empty when it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == LOCAL or name.endswith(f".{LOCAL}")
