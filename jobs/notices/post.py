"""Posts to an address that a user gave, from within our network: only to where they may send.

Public addresses may be posted to by https. Those of private networks, of this machine, and whatever an admin names in
LONGSHORE_NOTICE_TARGETS only where that names them, by host or by network; then also by http. A name is resolved once,
and what was looked at is what is connected to. No redirect is followed and no proxy asked. All of it has PATIENCE
seconds, however slowly the other side speaks.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from urllib.parse import urlsplit

import urllib3
from django.conf import settings
from urllib3.connection import HTTPConnection, HTTPSConnection

from base.core.errors import BadRequest

PATIENCE = 10.0  # seconds
LONGEST_ANSWER = 2_000  # bytes of it that are kept
LONGEST_URL = 1_000
_AGAIN = {408, 409, 423, 425, 429}  # beside 5xx: the same may be taken later
_LONGEST_WISH = 3600  # seconds for which a receiver may ask us to wait
# Public, but no better than private ones: what answers every machine of a cloud, what of IPv6 nobody in public has
# (site-local ones, and those that stand for one of IPv4, are in it), and in the rest the tunnels to one of IPv4.
_NOT = [
    ipaddress.ip_network(each)
    for each in ("168.63.129.16/32", "192.0.0.0/24", "::/3", "4000::/2", "8000::/1", "2002::/16", "2001::/32")
]
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_FAULTS = (OSError, urllib3.exceptions.HTTPError, HTTPException, ValueError)
_TLS = ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """What the other side said. ``status`` is None where it said nothing; ``took`` are seconds."""

    says: str
    status: int | None = None
    body: str = ""
    took: float = 0.0


class SendError(Exception):
    """It was not taken. ``permanent``: nor will it be, so it is not tried again. ``after``: seconds for which the other
    side wants to be left alone."""

    def __init__(self, answer: SendAnswer, *, permanent: bool = False, after: int = 0) -> None:
        super().__init__(answer.says)
        self.answer, self.permanent, self.after = answer, permanent, after

    @property
    def is_silent(self) -> bool:
        """Nobody answered: what else waits for the same receiver had better wait too."""
        return self.answer.status is None


def check_url(url: str) -> str:
    """The URL as it is kept. Raises BadRequest with a sentence for one to which nothing may be posted, as far as that
    can be said without asking for its address."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or len(url) > LONGEST_URL or not url.strip().isprintable() or " " in url.strip():
        raise BadRequest(f"Give an address such as https://hooks.example.org/x, of {LONGEST_URL:,} characters at most.")
    if parts.username or parts.password:
        raise BadRequest("The address must have no user and no password in it.")
    if parts.scheme not in ("https", "http") or port == 0:
        raise BadRequest("The address must begin with https://.")
    literal = _literal(host)
    if literal and not _may_reach(host, literal):
        raise BadRequest(_refused(host))
    if parts.scheme == "http" and not (literal or host.lower() in settings.NOTICE_HOSTS or settings.NOTICE_NETWORKS):
        raise BadRequest("The address must begin with https://. http:// is for targets that an admin has allowed.")
    return url.strip()


def post(url: str, body: bytes, headers: Mapping[str, str]) -> SendAnswer:
    """Post, and return what was answered with 2xx. Raises SendError."""
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    began = time.monotonic()
    address = _resolved(host, port, is_tls=is_tls)
    if is_tls:
        connection: HTTPConnection = HTTPSConnection(
            address, port, timeout=PATIENCE, ssl_context=_TLS, server_hostname=host
        )
    else:
        connection = HTTPConnection(address, port, timeout=PATIENCE)
    # A receiver that sends a byte now and then would never meet a limit of the socket.
    is_late = threading.Event()
    over = threading.Timer(PATIENCE, _cut, [connection, is_late])
    over.daemon = True
    over.start()
    try:
        connection.connect()
        if is_late.is_set():  # there may have been nothing to cut yet
            raise TimeoutError
        return _posted(connection, parts.netloc, _path(url), body, headers, began)
    except _FAULTS as error:
        why = _why(error, host, is_late=is_late.is_set())
        raise SendError(SendAnswer(why, took=time.monotonic() - began)) from None
    finally:
        over.cancel()
        connection.close()


def _posted(
    connection: HTTPConnection, netloc: str, path: str, body: bytes, headers: Mapping[str, str], began: float
) -> SendAnswer:
    sent = {"Host": netloc, "User-Agent": f"Longshore/{settings.RELEASE}", **headers}
    connection.request("POST", path, body=body, headers=sent, preload_content=False, decode_content=False)
    response = connection.getresponse()
    text = _start_of(response)
    reason = str(response.reason or "").strip()[:60]
    says = f"{response.status} {reason}".strip()
    answer = SendAnswer(says, response.status, text, time.monotonic() - began)
    if 200 <= response.status < 300:
        return answer
    if 300 <= response.status < 400:
        says = f"{says}: it leads elsewhere, which is not followed"
        raise SendError(SendAnswer(says, response.status, text, answer.took), permanent=True)
    wish = response.headers.get("Retry-After", "")
    after = min(int(wish), _LONGEST_WISH) if wish.isascii() and wish.isdigit() and len(wish) < 9 else 0
    raise SendError(answer, permanent=response.status < 500 and response.status not in _AGAIN, after=after)


def _start_of(response: urllib3.HTTPResponse) -> str:
    """Of what was answered; as much as came, where it breaks off. The status counts, which has come."""
    try:
        return response.read(LONGEST_ANSWER, decode_content=False).decode(errors="replace").replace("\x00", "")
    except _FAULTS:
        return ""


def _resolved(host: str, port: int, *, is_tls: bool) -> str:
    """One address of the host that may be reached. Raises SendError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise SendError(SendAnswer(f"there is no host {host}")) from None
    addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    may = [each for each in addresses if _may_reach(host, each)]
    if not may:
        raise SendError(SendAnswer(_refused(host)), permanent=True)
    if not is_tls and not _is_allowed(host, may[0]):
        raise SendError(SendAnswer("http:// is for targets that an admin has allowed"), permanent=True)
    return str(may[0])


def _may_reach(host: str, address: _Address) -> bool:
    is_public = address.is_global and not address.is_multicast and not any(address in network for network in _NOT)
    return is_public or _is_allowed(host, address)


def _is_allowed(host: str, address: _Address) -> bool:
    named = host.lower().rstrip(".") in settings.NOTICE_HOSTS
    return named or any(address in network for network in settings.NOTICE_NETWORKS)


def _literal(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _refused(host: str) -> str:
    return f"{host} is in a private network, to which an admin must allow notices (LONGSHORE_NOTICE_TARGETS)."


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"


def _cut(connection: HTTPConnection, is_late: threading.Event) -> None:
    """End what waits for this connection."""
    is_late.set()  # first: who waits goes on as soon as the connection ends, and who connects looks when it is there
    try:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _why(error: Exception, host: str, *, is_late: bool) -> str:
    if is_late or isinstance(error, TimeoutError | urllib3.exceptions.TimeoutError):
        return f"no answer in {PATIENCE:.0f} s"
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate of {host} is not valid: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"{host} does not speak TLS as we do"
    if isinstance(cause, ConnectionRefusedError):
        return f"{host} refuses connections"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{host} cannot be reached: {cause.strerror}"
    return f"{host} answered with something that is no HTTP"
