"""Keeps the TLS keys of nodes and the kubeconfigs of clusters: LONGSHORE_HOME/secrets/nodes/<name>/<version>/ with
{ca,cert,key}.pem or kubeconfig, folders 0700, files 0600.

Every change of keys makes a new version folder. So a process that is opening a connection never reads half of each
version, and a connection pool that is known by its folder never has old keys.
Other hosts have them from the database (base/hosts/shared.py).
"""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from base.core.errors import BadRequest
from base.hosts import shared
from clusters.engines import schemes


def store(name: str, files: Mapping[str, str]) -> str:
    """Write {file: text} into a new folder and return it; "" when there are none. BadRequest when the texts are not a
    usable set of keys; then no file is left."""
    if not files:
        return ""
    folder = _folder(name)
    try:
        _fill(folder, files)
        shared.share_tls(str(folder))
    except BaseException:
        forget(str(folder))
        raise
    return str(folder)


@contextmanager
def tried(endpoint: str, files: Mapping[str, str]) -> Iterator[str]:
    """A folder with the keys for as long as the block lasts, which only tries them at the endpoint; "" when there are
    none. BadRequest as above."""
    if not files:
        yield ""
        return
    folder = Path(tempfile.mkdtemp(prefix="longshore-keys-"))
    try:
        _fill(folder, files)
        yield str(folder)
    finally:
        schemes.forget(endpoint, folder)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def changed(before: str, tls_dir: str) -> Iterator[None]:
    """The block takes the keys ``tls_dir`` in place of those ``before``. Those that are not in use after it go."""
    try:
        yield
    except BaseException:
        if tls_dir != before:
            forget(tls_dir)
        raise
    if tls_dir != before:
        forget(before)


def forget(tls_dir: str) -> None:
    """Remove a folder that ``store`` made. Any other folder (the admin's own certificates) stays."""
    folder = shared.tls_here(tls_dir) if tls_dir else Path()
    if tls_dir and folder.parent.parent == shared.tls_root():
        shared.drop(shared.tls_name(folder))
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.parent.rmdir()
        except OSError:
            pass  # another version is in it


def _folder(name: str) -> Path:
    parent = shared.tls_root() / name
    for folder in (shared.tls_root().parent, shared.tls_root(), parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent))


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "surrogatepass"))
    if "ca.pem" in files:
        _check(folder)


def _check(folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=str(folder / "ca.pem"))
    except (ssl.SSLError, ValueError):
        raise BadRequest('"tls.ca" is not a certificate in PEM form.') from None
    try:
        # Without a password function OpenSSL would ask on the terminal for that of an encrypted key.
        context.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"), password=lambda: "")
    except (ssl.SSLError, ValueError, OSError):
        message = '"tls.cert" and "tls.key" are not a certificate in PEM form and its key without a password.'
        raise BadRequest(message) from None
