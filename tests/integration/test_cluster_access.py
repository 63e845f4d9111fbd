"""What Longshore goes by at the API of a cluster: certificates of both sides, tokens, proxies. The API is a server of
this file."""

from __future__ import annotations

import base64
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clusters.engines.kubernetes import access
from clusters.engines.kubernetes.connect import ClusterApi
from clusters.engines.runtime import RuntimeFault

ENDPOINT = "kubernetes://lab/jobs"
Pair = tuple[bytes, bytes]  # a certificate and its key


def pair(name: str = "cluster.test") -> Pair:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName(name)])
    made = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signed = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM), key.private_bytes(*form)


class Handler(BaseHTTPRequestHandler):
    """Answers who asked. As a proxy it carries what it gets."""

    server: Server

    def do_GET(self) -> None:
        of_client: Any = self.connection.getpeercert()  # type: ignore[attr-defined]
        shown = dict(one[0] for one in of_client["subject"]) if of_client else {}
        self._answer({"token": self.headers.get("Authorization"), "client": shown.get("commonName")})

    def do_CONNECT(self) -> None:
        host, _, port = self.path.rpartition(":")
        self.server.asked.append(self.path)
        with socket.create_connection((host, int(port))) as there:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_carry, args=(there, self.connection))
            back.start()
            _carry(self.connection, there)
            back.join()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, said: dict[str, Any]) -> None:
        data = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.address = f"127.0.0.1:{self.server_port}"


def _carry(one: socket.socket, other: socket.socket) -> None:
    while data := one.recv(65_536):
        other.sendall(data)
    other.shutdown(socket.SHUT_WR)


@pytest.fixture
def serve() -> Iterator[Any]:
    servers: list[Server] = []

    def begin() -> Server:
        server = Server()
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return server

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def own() -> Pair:
    return pair()


@pytest.fixture
def client() -> Pair:
    return pair("longshore.test")


@pytest.fixture
def api(serve: Any, own: Pair, client: Pair, tmp_path: Path) -> Server:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "server.pem").write_bytes(b"".join(own))
    context.load_cert_chain(tmp_path / "server.pem")
    context.load_verify_locations(cadata=client[0].decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    server: Server = serve()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


def asked(folder: Path, server: Server, ca: bytes | None, user: dict[str, Any], **cluster: str) -> dict[str, Any]:
    """What the API hears from one that goes by this kubeconfig."""
    cluster["server"] = f"https://{server.address}/"
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    named = {"contexts": ("context", {"cluster": "c", "user": "c"}), "clusters": ("cluster", cluster)}
    named["users"] = ("user", user)
    config = {many: [{"name": "c", one: value}] for many, (one, value) in named.items()}
    (folder / "kubeconfig").write_text(yaml.safe_dump({"current-context": "c", **config}))
    return ClusterApi(ENDPOINT, folder).ask("GET", "/version")


def shown(one: Pair) -> dict[str, str]:
    certificate, key = (base64.b64encode(part).decode() for part in one)
    return {"client-certificate-data": certificate, "client-key-data": key}


def test_a_token_is_sent(api: Server, own: Pair, tmp_path: Path) -> None:
    assert asked(tmp_path, api, own[0], {"token": "t1"}) == {"token": "Bearer t1", "client": None}


def test_a_client_certificate_is_shown(api: Server, own: Pair, client: Pair, tmp_path: Path) -> None:
    assert asked(tmp_path, api, own[0], shown(client)) == {"token": None, "client": "longshore.test"}


@pytest.mark.parametrize("ca", [pair()[0], None])
def test_a_server_whose_ca_is_another_one_is_not_asked(api: Server, ca: bytes | None, tmp_path: Path) -> None:
    with pytest.raises(RuntimeFault, match="not from the kubeconfig's CA") as raised:
        asked(tmp_path, api, ca, {"token": "t1"})
    assert raised.value.permanent


def test_a_server_may_have_a_name_of_its_own_in_its_certificate(api: Server, own: Pair, tmp_path: Path) -> None:
    assert asked(tmp_path, api, own[0], {"token": "t"}, **{"tls-server-name": "cluster.test"})["token"] == "Bearer t"
    with pytest.raises(RuntimeFault, match="certificate"):
        asked(tmp_path, api, own[0], {"token": "t"}, **{"tls-server-name": "another.test"})


def test_a_certificate_with_the_key_of_another_one_is_no_kubeconfig(
    api: Server, own: Pair, client: Pair, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeFault, match=r"kubeconfig of the cluster lab has a certificate or a key that cannot"):
        asked(tmp_path, api, own[0], shown((client[0], own[1])))
    with pytest.raises(RuntimeFault, match="cannot be read"):
        asked(tmp_path, api, b"no certificate", {"token": "t"})


def test_a_proxy_of_the_environment_is_used_unless_it_is_not_for_this_server(
    api: Server, serve: Any, own: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy: Server = serve()
    monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert asked(tmp_path, api, own[0], {"token": "t1"})["token"] == "Bearer t1"
    assert proxy.asked == [api.address]
    monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
    assert asked(tmp_path, api, own[0], {"token": "t2"})["token"] == "Bearer t2"
    assert proxy.asked == [api.address]


def test_the_token_of_the_own_pod_is_the_one_that_is_there_now(
    api: Server, own: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "OWN_ACCOUNT", tmp_path / "account")
    cluster = ClusterApi(ENDPOINT)
    with pytest.raises(RuntimeFault, match="Longshore does not run inside it"):
        cluster.ask("GET", "/version")
    for part, value in {"HOST": "127.0.0.1", "PORT": str(api.server_port)}.items():
        monkeypatch.setenv(f"KUBERNETES_SERVICE_{part}", value)
    monkeypatch.setattr(access, "OWN_ACCOUNT", tmp_path / "serviceaccount")
    with pytest.raises(RuntimeFault, match="Longshore does not run inside it"):
        cluster.ask("GET", "/version")
    (tmp_path / "serviceaccount").mkdir()
    (tmp_path / "serviceaccount" / "ca.crt").write_bytes(own[0])
    for token in ("t1", "t2"):
        (tmp_path / "serviceaccount" / "token").write_text(f"{token}\n")
        assert cluster.ask("GET", "/version")["token"] == f"Bearer {token}"
