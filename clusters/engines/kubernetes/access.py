"""What Longshore goes by at the API of a cluster: its address, the certificates of both sides, and the token.

They are those of a kubeconfig, or of the pod that Longshore itself runs in. A kubelet puts another token there from
time to time, so that is read whenever it is sent.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clusters.engines.kubernetes import kubeconfig

OWN_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """``server`` begins with https:// and does not end with a slash. ``server_name`` is the one in its certificate,
    where that is not its address."""

    server: str
    tls: ssl.SSLContext
    token: Callable[[], str]
    server_name: str | None = None

    def headers(self) -> dict[str, str]:
        """Raises OSError when the token cannot be read."""
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {}


def of_kubeconfig(text: str) -> Access:
    """Raises ValueError with what is wrong, to be put after "The kubeconfig"."""
    cluster, user = kubeconfig.entries(text)
    token = user.get("token", "")
    try:
        ca, certificate, key = (
            base64.b64decode(entry.get(name, "")).decode("ascii", "ignore")
            for entry, name in (
                (cluster, "certificate-authority-data"),
                (user, "client-certificate-data"),
                (user, "client-key-data"),
            )
        )
        tls = ssl.create_default_context(cadata=ca or None)
        if certificate and key:
            _show(tls, certificate, key)
    except (ValueError, ssl.SSLError):
        raise ValueError("has a certificate or a key that cannot be read") from None
    return Access(cluster["server"].rstrip("/"), tls, lambda: token, cluster.get("tls-server-name"))


def of_own_pod() -> Access:
    """Raises FileNotFoundError where Longshore does not run in a pod of a cluster."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    if not host or not port:
        raise FileNotFoundError("KUBERNETES_SERVICE_HOST")
    tls = ssl.create_default_context(cadata=(OWN_ACCOUNT / "ca.crt").read_text())
    return Access(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", tls, _own_token)


def _own_token() -> str:
    return (OWN_ACCOUNT / "token").read_text().strip()


def _show(tls: ssl.SSLContext, certificate: str, key: str) -> None:
    """Python's ssl takes a certificate and its key from a file alone. Without a password function OpenSSL would ask on
    the terminal for that of an encrypted key."""
    with tempfile.NamedTemporaryFile("w") as file:  # nobody else may read it
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        tls.load_cert_chain(file.name, password=lambda: "")
