"""Keeps the TLS keys of nodes and the kubeconfigs of clusters: LONGSHORE_HOME/secrets/nodes/<name>/<version>/ with
{ca,cert,key}.pem or kubeconfig, folders 0700, files 0600.

Every change of keys makes a new version folder. So a process that is opening a connection never reads half of each
version, and a connection pool that is known by its folder never has old keys.
Other hosts have them from the database (portal/hosts/own_tls.py).
"""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clusters.nodes.serializers import Tls
from portal.core.errors import BadRequest
from portal.hosts import own_tls, shared


def store(name: str, tls: Tls) -> str:
    """Write the keys and return their new folder. BadRequest when the texts are not a usable set of keys; then no file
    is left."""
    folder = _folder(name)
    try:
        fill(folder, tls)
        own_tls.share(str(folder))
    except BaseException:
        forget(str(folder))
        raise
    return str(folder)


def fill(folder: Path, tls: Tls) -> None:
    """Write the keys there. BadRequest when the texts are not a usable set of keys."""
    for file, text in (("ca.pem", tls.ca), ("cert.pem", tls.cert), ("key.pem", tls.key)):
        _write(folder / file, text)
    _check(folder)


def store_files(name: str, files: Mapping[str, str]) -> str:
    """Write {file: text} into a new folder and return it; "" when there are none."""
    if not files:
        return ""
    folder = _folder(name)
    write_files(folder, files)
    own_tls.share(str(folder))
    return str(folder)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for file, text in files.items():
        _write(folder / file, text)


def forget(tls_dir: str) -> None:
    """Remove a folder that ``store`` made. Any other folder (the admin's own certificates) stays."""
    folder = own_tls.here(tls_dir) if tls_dir else Path()
    if tls_dir and folder.parent.parent == own_tls.root():
        shared.drop(own_tls.name_of(folder))
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.parent.rmdir()
        except OSError:
            pass  # another version is in it


def _folder(name: str) -> Path:
    parent = own_tls.root() / name
    for folder in (own_tls.root().parent, own_tls.root(), parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent))


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "surrogatepass"))


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
