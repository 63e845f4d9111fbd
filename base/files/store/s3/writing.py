"""Writes objects. A small one is sent whole, a large one in parts that become an object in one step.

Nobody sees anything before that. What a killed writer left is an upload without an end, which ``clean_up`` aborts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from types import MappingProxyType
from typing import IO, Any

from base.core.errors import LongshoreError
from base.files.store.s3.client import Server, UploadGone

PART = 8 << 20  # bytes of a part; S3 takes 5 MiB at least, but for the last one
LEAST = 5 << 20
COPIED = 128 << 20  # bytes of a part that the server copies by itself, and answers only then
_IN_MEMORY = 256 << 10  # bytes of a part; more wait on this host's disk, as many may be written slowly at once
_GROWS = 1000  # parts after which they become twice as large: an object has 10,000 at most


class Upload:
    """One object that is being made: a Writing. ``condition``: headers of the request that gives it its name.
    ``require``: is called before that, and may raise."""

    def __init__(
        self,
        server: Server,
        path: str,
        key: str,
        metadata: dict[str, str],
        condition: Mapping[str, str] = MappingProxyType({}),
        require: Callable[[], object] = lambda: None,
    ) -> None:
        self._server, self._path, self._key = server, path, key
        self._condition, self._require = condition, require
        self._metadata = metadata
        self._id = ""
        self._parts: list[dict[str, Any]] = []
        self._buffer: IO[bytes] = _buffer()
        self._buffered = self.size = 0

    def add(self, piece: bytes) -> None:
        """Send a part whenever there is enough for one."""
        view = memoryview(piece)
        while view:
            taken = view[: self._part_size() - self._buffered]
            self._buffer.write(taken)
            self._buffered += len(taken)
            self.size += len(taken)
            view = view[len(taken) :]
            if self._buffered == self._part_size():
                self._send()

    def copy(self, source: Mapping[str, str], start: int, end: int) -> None:
        """Add the bytes from ``start`` to ``end`` of another object, which the server copies by itself. ``source``: its
        bucket, key and, so that it is the same one, ETag. At least LEAST bytes, unless they are the last."""
        while start < end:
            until = end if end - start <= 2 * COPIED else start + COPIED
            number = self._next()
            answer = self._ask(
                "upload_part_copy",
                UploadId=self._id,
                PartNumber=number,
                CopySource={"Bucket": source["Bucket"], "Key": source["Key"]},
                CopySourceIfMatch=source["ETag"],
                CopySourceRange=f"bytes={start}-{until - 1}",
            )
            self._parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
            self.size += until - start
            start = until

    def keep(self) -> int:
        """Make the object."""
        self._require()
        if self._id:
            self._complete()
        else:
            self._buffer.seek(0)
            self._ask("put_object", Body=self._buffer, Metadata=self._metadata, **self._condition)
        return self.size

    def drop(self) -> None:
        """Forget it all; after ``keep`` nothing is left to forget."""
        self._buffer.close()
        if self._id:
            with suppress(LongshoreError):
                self._ask("abort_multipart_upload", UploadId=self._id)
            self._id = ""

    def _complete(self) -> None:
        if self._buffered:
            self._send()
        try:
            parts = {"Parts": self._parts}
            self._ask("complete_multipart_upload", UploadId=self._id, MultipartUpload=parts, **self._condition)
        except UploadGone:
            if not self._is_made():
                raise
        self._id = ""

    def _is_made(self) -> bool:
        """Whether the object is there: the answer may be lost, and the request that is sent again finds no upload."""
        head = self._ask("head_object")
        return bool(head["ContentLength"] == self.size and head["ETag"].strip('"').endswith(f"-{len(self._parts)}"))

    def _part_size(self) -> int:
        return PART << (len(self._parts) // _GROWS)

    def _next(self) -> int:
        """Return the number of the next part. The first one begins the upload."""
        if not self._id:
            self._id = self._ask("create_multipart_upload", Metadata=self._metadata)["UploadId"]
        return len(self._parts) + 1

    def _ask(self, question: str, **more: Any) -> Any:
        return self._server.ask(self._path, question, self._key, **more)

    def _send(self) -> None:
        number = self._next()
        self._buffer.seek(0)
        answer = self._ask("upload_part", UploadId=self._id, PartNumber=number, Body=self._buffer)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        self._buffer.close()
        self._buffer, self._buffered = _buffer(), 0


def _buffer() -> IO[bytes]:
    return SpooledTemporaryFile(_IN_MEMORY)
