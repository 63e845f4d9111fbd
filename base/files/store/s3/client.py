"""Speaks with the S3 server: boto3's client, and its errors as ours. No other module uses ``boto3``.

A server that did not answer is left alone for a moment. Errors name what an admin may have set wrong and never what
the server was sent: a request has the signature in it.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
)

from base.core.errors import BadRequest, Conflict, LongshoreError
from base.core.store_url import Bucket
from base.files.store.base import BadPath, PathExists, PathNotFound, StoreFull, StoreUnavailable
from base.files.store.remote import Breaker

CONNECTS, ANSWERS, TRIES = 3.0, 10.0, 3  # seconds, and how often a request is sent
WORKS = 30.0  # seconds a server may take to store or copy a part, and to make an object of parts; sent twice at most
REST = 2.0  # seconds that a server is left alone after it did not answer
_CONNECTIONS = 64
_MISSING = {"404", "NoSuchKey", "NotFound"}
_KEYS = "LONGSHORE_S3_ACCESS_KEY and LONGSHORE_S3_SECRET_KEY"
_REFUSALS = {
    "does not allow the portal's key to do that: it needs to list, read, write and delete": (
        *("AccessDenied", "403", "AllAccessDisabled"),
    ),
    f"does not know the portal's key ({_KEYS})": ("InvalidAccessKeyId",),
    f"does not take the portal's key ({_KEYS})": ("SignatureDoesNotMatch", "InvalidToken"),
    "says that the portal's key has expired": ("ExpiredToken",),
    "refuses: its clock and this host's differ too much": ("RequestTimeTooSkewed",),
    "has no bucket of the name in LONGSHORE_STORE_URL": ("NoSuchBucket", "InvalidBucketName"),
    "has the bucket in another region (LONGSHORE_S3_REGION)": (
        *("PermanentRedirect", "301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"),
    ),
    "cannot do that": ("NotImplemented",),
}
_BUSY = {"SlowDown", "503", "ServiceUnavailable", "RequestLimitExceeded", "Throttling", "TooManyRequests", "429"}
SLOW = {"put_object", "copy_object", "upload_part", "upload_part_copy", "complete_multipart_upload"}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "StorageFull", "InsufficientStorage"}
_CHANGED = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
_FOREIGN = (BotoCoreError, ClientError, OSError, ValueError, KeyError, TypeError)

for _name in ("boto3", "botocore", "s3transfer"):  # below this they write each request with its signature
    logging.getLogger(_name).setLevel(logging.WARNING)


class BeyondEnd(BadRequest):
    """The object has no byte there."""


class UploadGone(StoreUnavailable):
    """The server does not know the upload: it was aborted, or is an object already."""


class Server:
    """One bucket. ``client`` is boto3's, for many threads, and ``patient`` another for what is SLOW."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket.name
        self._breaker = Breaker(REST, patience=TRIES * (CONNECTS + ANSWERS))
        with self.translated("/"):
            self.client = _client(bucket, ANSWERS, TRIES)
            self.patient = _client(bucket, WORKS, min(TRIES, 2))

    def object(self, key: str) -> dict[str, str]:
        """The arguments by which boto3 knows an object."""
        return {"Bucket": self.bucket, "Key": key}

    def ask(self, path: str, question: str, key: str, **more: Any) -> Any:
        """Ask about the object of a key, by a method of boto3's client. ``path`` is for errors."""
        client = self.patient if question in SLOW else self.client
        with self.translated(path):
            return getattr(client, question)(**self.object(key), **more)

    def translated(self, path: str) -> AbstractContextManager[None]:
        """Errors of the library and of the network become those of the store."""
        return self._breaker.guarding(_FOREIGN, lambda error: self._error(path, error))

    def _error(self, path: str, error: Exception) -> LongshoreError:
        if isinstance(error, (HTTPClientError, ConnectionError, OSError)):
            reason = f"The file store (S3) cannot be reached ({type(error).__name__})."
            self._breaker.silent(reason)
            return StoreUnavailable(reason)
        self._breaker.answered()
        if isinstance(error, ClientError):
            return _error_of(path, error)
        if isinstance(error, (NoCredentialsError, CredentialRetrievalError)):
            return StoreUnavailable(f"The file store (S3) needs a key: set {_KEYS}.")
        return StoreUnavailable(f"The file store (S3) cannot be used ({type(error).__name__}).")


@lru_cache(maxsize=1)
def _session() -> Any:
    """It has read what the library knows of S3, which takes a while."""
    return boto3.session.Session()


def _client(bucket: Bucket, answers: float, tries: int) -> Any:
    own = bool(bucket.endpoint)
    config = Config(
        connect_timeout=CONNECTS,
        read_timeout=answers,
        retries={"mode": "standard", "total_max_attempts": tries},
        max_pool_connections=_CONNECTIONS,
        s3={"addressing_style": "path" if own else "auto"},
        # Others' servers know the checksums of old, and take newer ones for a mistake.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="longshore",
    )
    return _session().client(
        "s3",
        endpoint_url=bucket.endpoint or None,
        region_name=bucket.region or ("us-east-1" if own else None),
        aws_access_key_id=bucket.access_key or None,
        aws_secret_access_key=bucket.secret_key or None,
        config=config,
    )


def _error_of(path: str, error: ClientError) -> LongshoreError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _MISSING:
        return PathNotFound(f"{path} does not exist.")
    if code in ("InvalidRange", "416"):
        return BeyondEnd(f"{path} is shorter.")
    if code == "NoSuchUpload":
        return UploadGone(f"The file store (S3) dropped {path} while it was written. Try again.")
    if code in _CHANGED:
        conditional = error.operation_name in ("PutObject", "CompleteMultipartUpload")
        if conditional:
            return PathExists(f"{path} exists already, or was changed meanwhile.")
        return Conflict(f"{path} was changed by somebody else meanwhile. Try again.")
    if code in _FULL or status == 507:
        return StoreFull(f"The file store (S3) has no room for {path}.")
    if code in ("KeyTooLongError", "XMinioInvalidObjectName", "InvalidURI", "XMinioParentIsObject"):
        return BadPath(f"{path} is no path that this S3 store takes.")
    if code in _BUSY:
        return StoreUnavailable("The file store (S3) has too much to do and asks to wait. Try again in a moment.")
    if refusal := next((says for says, codes in _REFUSALS.items() if code in codes), ""):
        return StoreUnavailable(f"The file store (S3) {refusal}.")
    what = code if code.isalnum() and len(code) < 60 else status
    return StoreUnavailable(f"The file store (S3) answered with an error ({what}).")
