"""The ssh key pair of a job. It is generated when it is first needed and serves all attempts of the job."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.conf import settings

from base.core.bulk import first_where, insert_values
from base.core.sealed import opened, seal
from jobs.models import JobKey

RSA_BITS = 3072
_PURPOSE = "jobs.key"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """``public`` is one line for authorized_keys, ``private`` a PEM text."""

    public: str
    private: str


def key_of(job_id: int, comment: str) -> KeyPair:
    """The key pair of a job, generated now if there is none. Two callers that race get the same pair."""
    row = first_where(JobKey, "job_id = %s", job_id)
    if row is None:
        pair = generate(settings.SSH_KEY_TYPE, comment)
        sealed = [(job_id, pair.public, seal(pair.private, _PURPOSE))]
        insert_values(JobKey, ("job", "public", "private"), sealed, unless_there=True)  # somebody else's pair stays
        row = first_where(JobKey, "job_id = %s", job_id)
        if row is None:
            raise JobKey.DoesNotExist
    return KeyPair(row.public, opened(row.private, _PURPOSE))


def generate(kind: str, comment: str) -> KeyPair:
    """A new pair: ``ed25519`` in OpenSSH's own format, or ``rsa`` in the PEM format that clients of v1's time read."""
    key: Ed25519PrivateKey | RSAPrivateKey
    if kind == "rsa":
        key, form = generate_private_key(65537, RSA_BITS), PrivateFormat.TraditionalOpenSSL
    else:
        key, form = Ed25519PrivateKey.generate(), PrivateFormat.OpenSSH
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    private = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
    return KeyPair(f"{public} {comment}", private)
