"""Reads environment variables with a type. Pure but for the environment and, for secrets, one file."""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import secrets
import socket
import ssl
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from base.core import private, words
from base.core.store_url import Bucket, bucket, is_bucket, namenodes

# Addresses of private networks.
PRIVATE = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,::1/128,fc00::/7,fe80::/10"
_WEB_ADDRESS = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_HOST = re.compile(r"(?!.*\.[0-9.]*$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|localhost")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_OURS = "LONGSHORE_"
# What is read later than the settings or by others: commands, images and compose files, containers, the project's tests
# and benchmarks; and what Kubernetes tells the pods beside a service whose name begins with longshore.
_ELSEWHERE = re.compile(
    r"LONGSHORE_(((ADMIN_PASSWORD|BACKUP_PASSPHRASE|S3_(ENDPOINT|REGION|ACCESS_KEY|SECRET_KEY))(_FILE)?|SUPERVISOR"
    r"|UID|IMAGE|WEBHDFS_(URL|TOKEN_FILE)|WEB_PATH_\w+|REQUIRE|SEEDS|FIRST_SEED|WORLDS|COSTS|BENCH_\w+)=.*"
    r"|(\w+_)?SERVICE_(HOST|PORT)(_\w+)?=.*|(\w+_)?PORT(_\d+_[A-Z]+)?=[a-z]+://.*"
    r"|(\w+_)?PORT_\d+_[A-Z]+_(PROTO|PORT|ADDR)=.*)",
    re.DOTALL,
)
_LATER = ("LONGSHORE_ADMIN_PASSWORD", "LONGSHORE_BACKUP_PASSPHRASE")  # to be named where a name is like them
_asked: set[str] = set()  # names that this process has asked for


def text(name: str, default: str) -> str:
    """The variable, or the content of the file that ``<NAME>_FILE`` names, or the default."""
    _asked.update((name, f"{name}_FILE"))
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE is {path}, which cannot be read: {error.strerror}.") from error
    return os.environ.get(name) or default


def unknown() -> Iterator[str]:
    """A sentence for each variable that looks like a setting of ours and is none, once all settings were read: a
    misspelt one would leave the portal as open as without it. No reason to refuse a start, as an older release may be
    started by what was written for a newer one. What `up` starts says none: `up` has said them."""
    if "LONGSHORE_SUPERVISOR" in os.environ:
        return
    for name, value in sorted(os.environ.items()):
        if name.startswith(_OURS) and name not in _asked and not _ELSEWHERE.fullmatch(f"{name}={value}"):
            near = difflib.get_close_matches(name, sorted({*_asked, *_LATER}), 1, 0.8)
            hint = f"did you mean {near[0]}?" if near else "docs/run/settings.md has all."
            yield f"{name} is no setting of this release, so it changes nothing; {hint}"


def number(name: str, default: int, *, least: int) -> int:
    value = text(name, str(default))
    if (count := words.whole(value)) is None or count < least:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number, {least} or more.")
    return count


def quota(name: str) -> int | None:
    """Bytes, of a text such as ``100g``; None for no limit, when it is empty or ``none``."""
    value = text(name, "none")
    try:
        size = words.quota_in(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a size such as 100g, or none.") from None
    return None if size == words.UNLIMITED else size


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    return value


def bind(name: str, default: str) -> tuple[str, int]:
    value = text(name, default)
    host, colon, port = value.rpartition(":")
    if not (colon and host and 0 < (words.whole(port) or 0) < 65536):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be an address and a port, such as {default}.")
    return host.strip("[]"), int(port)


def bind_apart(first: str, one: tuple[str, int], second: str, other: tuple[str, int] | None) -> None:
    """Stop the start where the addresses of these two variables are in each other's way."""
    if other and one[1] == other[1] and _same_host(one[0], other[0]):
        port = one[1] % 65535 + 1
        raise ImproperlyConfigured(
            f"{second} is {_place(*other)}, which {first}, {_place(*one)}, has already. "
            f"Set {second} to another port, such as {port}."
        )


def _same_host(one: str, other: str) -> bool:
    """Whether two programs cannot have one port there: one listens on all addresses of the machine, or on the same."""
    places = [{one, *_addresses(one)}, {other, *_addresses(other)}]
    return bool(places[0] & places[1]) or any({"0.0.0.0", "::"} & each for each in places)  # noqa: S104


def _addresses(host: str) -> Iterator[str]:
    try:
        yield from (str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return


def bind_or_none(name: str, default: str) -> tuple[str, int] | None:
    """The same as ``bind``, or None for the text ``none``."""
    return None if text(name, default) == "none" else bind(name, default)


def ranges(first: int, last: int, without: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """The ports from ``first`` to ``last`` but for some, as ranges."""
    edges = [first - 1, *sorted(port for port in set(without) if first <= port <= last), last + 1]
    return tuple((before + 1, after - 1) for before, after in pairwise(edges) if before + 1 < after)


def networks(name: str, default: str = "") -> tuple[Network, ...]:
    """``10.0.0.0/8,192.168.1.7``; empty is the default, ``none`` is none."""
    value = text(name, default)
    value = "" if value == "none" else value
    try:
        return tuple(ipaddress.ip_network(each.strip()) for each in value.split(",") if each.strip())
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be networks such as 10.1.0.0/16,10.2.0.7.") from None


def targets(name: str) -> tuple[frozenset[str], tuple[Network, ...]]:
    """The hosts and the networks of ``hooks.lab,10.1.0.0/16``."""
    hosts: set[str] = set()
    found: list[Network] = []
    for each in filter(None, (part.strip() for part in text(name, "").split(","))):
        try:
            found.append(ipaddress.ip_network(each))
        except ValueError:
            if not _HOST.fullmatch(each):
                says = f"{name} names {each!r}; it must have hosts and networks such as hooks.lab,10.1.0.0/16."
                raise ImproperlyConfigured(says) from None
            hosts.add(each.lower())
    return frozenset(hosts), tuple(found)


def web_address(name: str, default: str) -> str:
    """``https://host`` or ``http://host:port``, nothing after it."""
    value = text(name, default).rstrip("/")
    if not _WEB_ADDRESS.fullmatch(value):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be an address such as https://longshore.example.org.")
    return value


def web_address_or_none(name: str) -> str:
    """The same as ``web_address``, or empty when it is not set."""
    return web_address(name, "") if text(name, "") else ""


def tls_files(certificate: str, key: str) -> tuple[str, str]:
    """The two files, or two empty texts. Files that cannot be used stop the start."""
    _asked.update((certificate, key))
    files = os.environ.get(certificate, ""), os.environ.get(key, "")
    if not any(files):
        return files
    if not all(files):
        raise ImproperlyConfigured(f"{certificate} and {key} belong together: name the files of both, or neither.")
    try:
        # Without a password function OpenSSL would ask on the terminal for that of an encrypted key.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*files, password=lambda: "")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no certificate with its key"
        raise ImproperlyConfigured(
            f"{certificate} and {key} are {files[0]} and {files[1]}, not usable: {why}."
        ) from error
    return files


def own_address(host: str, port: int, *, secure: bool) -> str:
    return f"{'https' if secure else 'http'}://{_place(host, port)}"


def _place(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def store_url(name: str) -> str:
    """Empty for a local folder, else the address of an HDFS or of a bucket."""
    value = text(name, "")
    try:
        if value:
            bucket(value) if is_bucket(value) else namenodes(value)
    except ValueError:
        form = "webhdfs://namenode:9870, both of a pair, webhdfs://nn1:9870;nn2:9870, or s3://bucket/prefix"
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be empty or {form}.") from None
    return value


def store_bucket(url: str, names: str) -> Bucket | None:
    """The bucket that the variable ``url`` names, with ``<NAMES>_ENDPOINT``, ``_REGION``, ``_ACCESS_KEY`` and
    ``_SECRET_KEY``; None where it names none."""
    return bucket_at(where, names) if is_bucket(where := text(url, "")) else None


def bucket_at(where: str, names: str) -> Bucket:
    """The bucket of an address, with the server and the keys that the variables say. ValueError for no address."""
    endpoint, region = web_address_or_none(f"{names}_ENDPOINT"), text(f"{names}_REGION", "")
    access, secret = text(f"{names}_ACCESS_KEY", ""), text(f"{names}_SECRET_KEY", "")
    if bool(access) != bool(secret):
        raise ImproperlyConfigured(f"{names}_ACCESS_KEY and {names}_SECRET_KEY belong together: set both, or neither.")
    return bucket(where, endpoint, region, access, secret)


def fs_uri(store: str, public_url: str) -> str:
    """The default of PAI_DEFAULT_FS_URI: the NameNode, or this portal in the place of one."""
    address = namenodes(store)[0] if store and not is_bucket(store) else public_url
    secure, host = address.startswith("https:"), address.partition("://")[2].partition("/")[0]
    return f"{'swebhdfs' if secure else 'webhdfs'}://{host}"


def secret_file(name: str, path: Path) -> str:
    """A secret from the environment, or one that is made once and stored in a 0600 file."""
    if secret := text(name, ""):
        return secret
    try:
        return private.made_once(path, secrets.token_urlsafe(48))
    except OSError as error:
        raise ImproperlyConfigured(
            f"{error.filename or path} cannot be used: {error.strerror}. LONGSHORE_HOME names the folder for it."
        ) from error


def version(release: str, build: str, root: Path) -> str:
    """Return ``0.1.0+5789e23``: the release with ``build``, else with the commit of the clone at ``root``. The release
    alone where there is neither."""
    build = build or commit(root)[:7]
    return f"{release}+{build}" if build else release


def commit(root: Path) -> str:
    """The commit that is checked out; empty outside a clone. It reads git's files: a start waits for no program."""
    try:
        folder = root / ".git"
        if folder.is_file():  # a worktree
            folder = root / folder.read_text().removeprefix("gitdir:").strip()
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = folder / "commondir"
        shared = (folder / common.read_text().strip()) if common.exists() else folder
        if (shared / name).exists():
            return (shared / name).read_text().strip()
        packed = (line.split() for line in (shared / "packed-refs").read_text().splitlines())
        return next((line[0] for line in packed if line[1:] == [name]), "")
    except (OSError, UnicodeDecodeError):
        return ""
