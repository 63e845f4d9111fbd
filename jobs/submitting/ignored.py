"""Says which files of a folder its ``.longshoreignore`` leaves out of an upload. It reads like a ``.gitignore``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import re2
from pathspec import GitIgnoreSpec

from base.core.errors import BadRequest

NAME = ".longshoreignore"
MOST = 5_000  # paths in one question
_LINES, _LONGEST = 1_000, 500  # of patterns, and characters of one


def left_out(patterns: str, paths: Sequence[str]) -> list[int]:
    """The numbers of those paths, relative to the folder with the file, that stay behind. Raises BadRequest with the
    line that cannot be read. RE2 does the matching: its time does not explode, whatever somebody writes."""
    lines = patterns.splitlines()
    if len(lines) > _LINES or any(len(line) > _LONGEST for line in lines):
        raise BadRequest(f"{NAME} may have {_LINES:,} lines of {_LONGEST} characters each.")
    for number, line in enumerate(lines, 1):
        try:
            GitIgnoreSpec.from_lines([line], backend="re2")
        except (ValueError, re2.error):
            raise BadRequest(f"Line {number} of {NAME} cannot be read: {line}") from None
    spec = _together(lines)
    return [at for at, path in enumerate(paths) if spec.match_file(path)]


def _together(lines: Sequence[str]) -> GitIgnoreSpec:
    """All lines as one. Raises BadRequest where RE2 has no memory for so many that are each so much."""
    try:
        return GitIgnoreSpec.from_lines(lines, backend="re2")
    except (ValueError, RuntimeError, re2.error):
        raise BadRequest(f"{NAME} has too many patterns, or too large ones: together they cannot be read.") from None


def paths_of(text: str) -> list[str]:
    """The paths of a question, which come as JSON. Raises BadRequest."""
    try:
        paths = json.loads(text)
    except (ValueError, RecursionError):
        paths = None
    if not isinstance(paths, list) or len(paths) > MOST or not all(isinstance(path, str) for path in paths):
        raise BadRequest(f'"paths" must be a list of at most {MOST:,} paths.')
    return paths
