"""A real directory: Debian's slapd with people, and groups in groups, on a port with StartTLS and on one with TLS."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from base.accounts.providers.config import Directory
from tests.limits import LIMIT

SECRET = "the secret of the searcher"
PASSWORD = "of the directory"
_CONFIG = """include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile {folder}/pid
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCACertificateFile {folder}/ca
TLSCertificateFile {folder}/cert
TLSCertificateKeyFile {folder}/key
disallow bind_anon
database mdb
suffix dc=lab
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
"""
_PEOPLE = ("mira", "paul", "a(b)c*d")
_GROUPS = {"vision": ["uid=mira,ou=people,dc=lab"], "staff": ["cn=vision,ou=groups,dc=lab"]}
_GROUPS |= {"all": ["cn=staff,ou=groups,dc=lab"], "circle": ["cn=all,ou=groups,dc=lab", "cn=circle,ou=groups,dc=lab"]}
_GROUPS |= {"nlp": ["uid=paul,ou=people,dc=lab"]}

_PATH = f"{os.environ['PATH']}:/usr/sbin"


def missing() -> str:
    """Empty when this machine can run one, else why not."""
    return "" if shutil.which("slapd", path=_PATH) else "slapd is not installed"


@dataclass(frozen=True, slots=True)
class Slapd:
    port: int
    tls_port: int
    ca: str

    def settings(self, **more: Any) -> dict[str, Directory]:
        table = {
            "name": "dir",
            "title": "Directory",
            "url": f"ldap://127.0.0.1:{self.port}",
            "ca": self.ca,
            "bind_dn": "cn=searcher,dc=lab",
            "bind_password": SECRET,
            "base": "ou=people,dc=lab",
            "group_base": "ou=groups,dc=lab",
        }
        return {"dir": Directory.model_validate({**table, **more})}


@contextmanager
def slapd() -> Iterator[Slapd]:
    from tests.helpers import until

    with TemporaryDirectory(prefix="longshore-slapd-") as name, _taken() as plain, _taken() as tls:
        folder = Path(name)
        (folder / "data").mkdir()
        _certificate(folder)
        (folder / "conf").write_text(_CONFIG.format(folder=folder))
        (folder / "ldif").write_text("\n".join(_entries()))
        subprocess.run(
            [str(_program("slapadd")), "-f", folder / "conf", "-l", folder / "ldif"], check=True, capture_output=True
        )
        port, tls_port = plain.getsockname()[1], tls.getsockname()[1]
        listen = f"ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}"
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                [str(_program("slapd")), "-d", "0", "-h", listen, "-f", folder / "conf"], stdout=output, stderr=output
            )
        try:
            until(lambda: _listens(tls_port) or process.poll() is not None, what="slapd listens")
            assert process.poll() is None, (folder / "output").read_text()
            yield Slapd(port, tls_port, str(folder / "ca"))
        finally:
            process.terminate()
            process.wait(LIMIT)


def _entries() -> Iterator[str]:
    yield "dn: dc=lab\nobjectClass: dcObject\nobjectClass: organization\no: lab\ndc: lab\n"
    for unit in ("people", "groups"):
        yield f"dn: ou={unit},dc=lab\nobjectClass: organizationalUnit\nou: {unit}\n"
    person = "objectClass: inetOrgPerson\nsn: x\n"
    yield f"dn: cn=searcher,dc=lab\n{person}cn: searcher\nuserPassword: {SECRET}\n"
    for name in _PEOPLE:
        mail = f"mail: {name}@lab.example\n" if name.isalpha() else ""
        yield f"dn: uid={name},ou=people,dc=lab\n{person}cn: {name}\nuid: {name}\nuserPassword: {PASSWORD}\n{mail}"
    for name, members in _GROUPS.items():
        every = "".join(f"member: {member}\n" for member in members)
        yield f"dn: cn={name},ou=groups,dc=lab\nobjectClass: groupOfNames\ncn: {name}\n{every}"


def _certificate(folder: Path) -> None:
    """Of an authority of its own, for 127.0.0.1 alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    for file in ("ca", "cert"):
        (folder / file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key").write_bytes(pem)


def _taken() -> socket.socket:
    """It keeps a free port from everybody but who sets SO_REUSEADDR too, as slapd does, and listens on it."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", 0))
    return taken


def _listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def _program(name: str) -> str:
    return shutil.which(name, path=_PATH) or name
