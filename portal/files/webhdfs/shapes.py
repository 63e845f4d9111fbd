"""Builds WebHDFS's JSON. Pure."""

from __future__ import annotations

from typing import Any

from portal.core.errors import (
    BadRequest,
    Conflict,
    DatabaseUnavailable,
    DiskFull,
    Forbidden,
    LongshoreError,
    NotFound,
    Unauthorized,
)
from portal.files.store.base import BadPath, Entry, PathExists, QuotaExceeded, StoreFull, StoreUnavailable, Usage

BLOCK_SIZE = 128 << 20

_IO = "java.io."
_HADOOP = "org.apache.hadoop."
# The first that fits: (our error, its class there, status as Hadoop 2.7 gives it)
_EXCEPTIONS: tuple[tuple[type[LongshoreError], str, int], ...] = (
    (PathExists, f"{_HADOOP}fs.FileAlreadyExistsException", 403),
    (BadPath, "java.lang.IllegalArgumentException", 400),
    (NotFound, f"{_IO}FileNotFoundException", 404),
    (Unauthorized, "java.lang.SecurityException", 401),
    (QuotaExceeded, f"{_HADOOP}hdfs.protocol.DSQuotaExceededException", 403),
    (Forbidden, f"{_HADOOP}security.AccessControlException", 403),
    (Conflict, f"{_IO}IOException", 403),
    (BadRequest, "java.lang.IllegalArgumentException", 400),
    (StoreFull, f"{_HADOOP}hdfs.protocol.DSQuotaExceededException", 403),
    (StoreUnavailable, f"{_HADOOP}ipc.RetriableException", 503),
    (DatabaseUnavailable, f"{_HADOOP}ipc.RetriableException", 503),
    (DiskFull, f"{_HADOOP}ipc.RetriableException", 503),
)


def remote_exception(error: LongshoreError) -> tuple[dict[str, Any], int]:
    """The body and the status for an error of ours."""
    known = ((name, status) for kind, name, status in _EXCEPTIONS if isinstance(error, kind))
    name, status = next(known, (f"{_IO}IOException", 500))
    exception = {"exception": name.rpartition(".")[2], "javaClassName": name, "message": error.message}
    return {"RemoteException": exception}, status


def file_status(entry: Entry, suffix: str = "", children: int = 0) -> dict[str, Any]:
    modified = int(entry.modified_at.timestamp() * 1000)
    return {
        "accessTime": 0 if entry.is_dir else modified,
        "blockSize": 0 if entry.is_dir else BLOCK_SIZE,
        "childrenNum": children,
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


def content_summary(usage: Usage) -> dict[str, Any]:
    return {
        "ContentSummary": {
            "directoryCount": usage.folders,
            "fileCount": usage.files,
            "length": usage.size,
            "quota": -1,
            "spaceConsumed": usage.size,
            "spaceQuota": -1,
        }
    }
