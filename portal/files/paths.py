"""The paths of files in addresses: ``<file:path>`` takes every name that a file can have, also one of two lines."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import PathConverter


class FilePath(PathConverter):
    regex = r"(?s:.+)"


register_converter(FilePath, "file")
