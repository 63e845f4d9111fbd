"""Builds WebHDFS's JSON. Pure, but that it reads the file of which it tells the checksum."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any, BinaryIO

from base.core import errors
from base.files.store.base import BadPath, Entry, PathExists, QuotaExceeded, StoreFull, StoreUnavailable, TreeUsage
from portal.webhdfs.messages import Unsupported

BLOCK_SIZE = 128 << 20
_PIECE = 512  # bytes, of which each has a sum
_AT_ONCE = 1 << 20  # bytes that are read

_IO = "java.io."
_HADOOP = "org.apache.hadoop."
# The first that fits: (our error, its class there, status as Hadoop 2.7 gives it)
_EXCEPTIONS: tuple[tuple[type[errors.LongshoreError], str, int], ...] = (
    (PathExists, f"{_HADOOP}fs.FileAlreadyExistsException", 403),
    (BadPath, "java.lang.IllegalArgumentException", 400),
    (Unsupported, "java.lang.UnsupportedOperationException", 400),
    (errors.NotFound, f"{_IO}FileNotFoundException", 404),
    (errors.Unauthorized, "java.lang.SecurityException", 401),
    (QuotaExceeded, f"{_HADOOP}hdfs.protocol.DSQuotaExceededException", 403),
    (errors.Forbidden, f"{_HADOOP}security.AccessControlException", 403),
    (errors.Conflict, f"{_IO}IOException", 403),
    (errors.BadRequest, "java.lang.IllegalArgumentException", 400),
    (StoreFull, f"{_HADOOP}hdfs.protocol.DSQuotaExceededException", 403),
    (StoreUnavailable, f"{_HADOOP}ipc.RetriableException", 503),
    (errors.TooManyRequests, f"{_HADOOP}ipc.RetriableException", 429),
    (errors.TooManyAtOnce, f"{_HADOOP}ipc.RetriableException", 503),
    (errors.DatabaseUnavailable, f"{_HADOOP}ipc.RetriableException", 503),
    (errors.DiskFull, f"{_HADOOP}ipc.RetriableException", 503),
)


def remote_exception(error: errors.LongshoreError) -> tuple[dict[str, Any], int]:
    """The body and the status for an error of ours."""
    known = ((name, status) for kind, name, status in _EXCEPTIONS if isinstance(error, kind))
    name, status = next(known, (f"{_IO}IOException", 500))
    exception = {"exception": name.rpartition(".")[2], "javaClassName": name, "message": error.message}
    return {"RemoteException": exception}, status


def file_status(entry: Entry, suffix: str = "") -> dict[str, Any]:
    modified = int(entry.modified_at.timestamp() * 1000)
    return {
        "accessTime": 0 if entry.is_dir else modified,
        "blockSize": 0 if entry.is_dir else BLOCK_SIZE,
        "childrenNum": 0,
        "fileId": 0,
        "group": entry.group or "supergroup",
        "length": entry.size,
        "modificationTime": modified,
        "owner": entry.owner,
        "pathSuffix": suffix,
        "permission": f"{entry.mode:o}",
        "replication": 0 if entry.is_dir else 1,
        "storagePolicy": 0,
        "type": "DIRECTORY" if entry.is_dir else "FILE",
    }


def content_summary(usage: TreeUsage) -> dict[str, Any]:
    sums = {"directoryCount": usage.folders, "fileCount": usage.files, "length": usage.size}
    return {"ContentSummary": {**sums, **_quotas(usage)}}


def quota_usage(usage: TreeUsage) -> dict[str, Any]:
    return {"QuotaUsage": {"fileAndDirectoryCount": usage.files + usage.folders, **_quotas(usage)}}


def _quotas(usage: TreeUsage) -> dict[str, int]:
    return {"quota": -1, "spaceConsumed": usage.size, "spaceQuota": -1}


def server_defaults() -> dict[str, Any]:
    """What Hadoop 3 asks before it deletes, reads or writes. Without an interval it deletes at once and moves nothing
    to a trash, which nobody would empty; an empty ``keyProviderUri`` says that nothing is encrypted."""
    defaults = {
        "blockSize": BLOCK_SIZE,
        "bytesPerChecksum": _PIECE,
        "checksumType": 1,  # CRC-32, that of GETFILECHECKSUM
        "defaultStoragePolicyId": 0,
        "encryptDataTransfer": False,
        "fileBufferSize": 4096,
        "keyProviderUri": "",
        "replication": 1,
        "trashInterval": 0,
        "writePacketSize": 65536,
    }
    return {"FsServerDefaults": defaults}


def block_locations(size: int, host: str) -> dict[str, Any]:
    """The file as one piece, which the gateway has: programs that split their work by blocks ask for them."""
    where = {"hosts": [host], "names": [host], "cachedHosts": [], "topologyPaths": [f"/default-rack/{host}"]}
    kind = {"corrupt": False, "storageIds": [], "storageTypes": ["DISK"]}
    blocks = [{"offset": 0, "length": size, **where, **kind}] if size else []
    return {"BlockLocations": {"BlockLocation": blocks}}


def file_checksum(file: BinaryIO, size: int) -> dict[str, Any]:
    """HDFS's checksum of ``size`` bytes of a file: the MD5 of the MD5s of its blocks, each of the CRC-32s of its
    pieces. It is that of an HDFS with ``dfs.checksum.type=CRC32``; the usual CRC-32C is not in Python's library."""
    blocks = [_of_block(file, min(BLOCK_SIZE, size - start)) for start in range(0, size, BLOCK_SIZE)]
    per_block = BLOCK_SIZE // _PIECE if len(blocks) > 1 else 0
    whole = hashlib.md5(_padded(b"".join(blocks)), usedforsecurity=False).digest()
    checksum = struct.pack(">iq", _PIECE if blocks else 0, per_block) + whole
    name = f"MD5-of-{per_block}MD5-of-{_PIECE if blocks else 0}CRC32"
    return {"FileChecksum": {"algorithm": name, "bytes": checksum.hex(), "length": len(checksum)}}


def _padded(sums: bytes) -> bytes:
    """HDFS computes over its whole buffer, which has 32 bytes and doubles as needed."""
    size = 32
    while size < len(sums):
        size *= 2
    return sums.ljust(size, b"\0")


def _of_block(file: BinaryIO, left: int) -> bytes:
    sums = hashlib.md5(usedforsecurity=False)
    while left > 0 and (data := file.read(min(_AT_ONCE, left))):
        left -= len(data)
        crcs = [zlib.crc32(data[start : start + _PIECE]) for start in range(0, len(data), _PIECE)]
        sums.update(struct.pack(f">{len(crcs)}I", *crcs))
    return sums.digest()
