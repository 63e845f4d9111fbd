"""Previews of files on their page.

Nothing is sent that a browser would run: the template escapes text, and a picture is recognized by its first bytes and
sent with exactly that type.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from base.core.errors import BadRequest
from base.files.store.base import Entry, Store

HEAD = 64 * 1024  # bytes of text that are shown
LARGEST_PICTURE = 32 * 1024 * 1024
_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
          (b"GIF89a", "image/gif"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Preview:
    """``kind``: text, picture, empty, or binary (nothing to show)."""

    kind: str
    text: str = ""
    says: str = ""


def preview(store: Store, entry: Entry) -> Preview:
    if entry.size == 0:
        return Preview("empty", says="The file is empty.")
    head = _head(store, entry.path, HEAD)
    if picture_type(head):
        if entry.size > LARGEST_PICTURE:
            return Preview("binary", says="The picture is too large to be shown here.")
        return Preview("picture")
    if b"\0" in head:
        return Preview("binary", says="This is no text and no picture: download it to see what is in it.")
    return _text(head, is_all=len(head) >= entry.size)


def picture_type(head: bytes) -> str:
    """The content type of a PNG, JPEG, GIF or WebP picture, by its first bytes; empty for everything else."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "")


def require_picture(store: Store, entry: Entry) -> str:
    """Return the content type of a picture. BadRequest when it is none."""
    kind = "" if entry.is_dir or entry.size > LARGEST_PICTURE else picture_type(_head(store, entry.path, 16))
    if not kind:
        raise BadRequest(f"{entry.name} is no picture that can be shown.")
    return kind


def _text(head: bytes, *, is_all: bool) -> Preview:
    decoder = codecs.getincrementaldecoder("utf-8")
    text = decoder("replace").decode(head, final=is_all)
    try:
        decoder().decode(head, final=is_all)
        odd = ""
    except UnicodeDecodeError:
        odd = " Some bytes are not UTF-8; they are shown as \N{REPLACEMENT CHARACTER}."
    lines = text.count("\n") + (not text.endswith("\n"))
    says = f"All {lines:,} lines." if lines > 1 else "All of it."
    return Preview("text", text, (says if is_all else f"The first {HEAD // 1024} KB.") + odd)


def _head(store: Store, path: str, size: int) -> bytes:
    with store.open_read(path) as file:
        return file.read(size)
