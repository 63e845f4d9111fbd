"""A real S3 server for tests, in a process of its own: moto's, which keeps everything in memory."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from base.core.store_url import Bucket
from base.files.store.s3.store import S3Store
from tests.helpers import until
from tests.limits import LIMIT

KEY, SECRET = "AKIDLONGSHORE", "a-secret-that-no-log-shows"


class S3Bed:
    """``url`` is the server's address. It knows every key and any region. ``host``: an address of this machine."""

    bucket = "longshore-test"

    def __init__(self, host: str = "127.0.0.1") -> None:
        with socket.socket() as free:
            free.bind((host, 0))
            self.port = free.getsockname()[1]
        self.host, self.url = host, f"http://{host}:{self.port}"
        self._log = tempfile.TemporaryFile()
        self.start()

    def start(self) -> None:
        """Also after ``kill``: the port is the same, and everything is gone but the bucket."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", self.host, "-p", str(self.port)],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
        )
        self.client = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            config=Config(connect_timeout=LIMIT, read_timeout=LIMIT),
        )
        until(self._has_bucket, 60, 0.1, what="the S3 server answers")

    def at(self, prefix: str = "") -> Bucket:
        return Bucket(self.bucket, prefix, self.url, "", KEY, SECRET)

    def store(self, prefix: str = "") -> S3Store:
        """A new one, with connections of its own."""
        return S3Store(self.at(prefix))

    def settings(self, prefix: str, secret: Path) -> dict[str, str]:
        """The environment of a portal that has its files there. ``secret``: where the key is written."""
        secret.write_text(SECRET)
        return {
            "LONGSHORE_STORE_URL": f"s3://{self.bucket}/{prefix}",
            "LONGSHORE_S3_ENDPOINT": self.url,
            "LONGSHORE_S3_ACCESS_KEY": KEY,
            "LONGSHORE_S3_SECRET_KEY_FILE": str(secret),
        }

    def empty(self) -> None:
        """Delete everything, also uploads without an end."""
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            for each in page.get("Contents", ()):
                self.client.delete_object(Bucket=self.bucket, Key=each["Key"])
        for each in self.uploads():
            self.client.abort_multipart_upload(Bucket=self.bucket, Key=each["Key"], UploadId=each["UploadId"])

    def uploads(self) -> list[dict[str, str]]:
        """Those without an end."""
        found: list[dict[str, str]] = self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        return found

    def freeze(self) -> None:
        """It takes connections and says nothing."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Without a word."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.thaw()
        self.kill()
        self._log.close()

    def _has_bucket(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError("The S3 server ended.")
        try:
            self.client.create_bucket(Bucket=self.bucket)
        except ClientError:
            return True
        except BotoCoreError:
            return False
        return True
