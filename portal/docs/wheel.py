"""Hands out the wheel of client/, so that ``pip install`` needs the portal's address and no clone. It is made here: a
wheel of Python files alone is an archive of them with four texts."""

from __future__ import annotations

import base64
import hashlib
import io
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

_WHEEL = "Wheel-Version: 1.0\nGenerator: longshore\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@require_safe
def client_wheel(request: HttpRequest, name: str = "") -> HttpResponse:
    """``/clients`` leads to the wheel, whose name must be in its address: pip reads it there."""
    current, data = _made()
    if not name:
        return redirect(f"/clients/{current}")
    if name != current:
        raise Http404
    return HttpResponse(data, content_type="application/zip")


@cache
def _made() -> tuple[str, bytes]:
    folder = Path(settings.BASE_DIR) / "client"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    stem = f"{project['name']}-{project['version']}"
    files = {
        f"{project['name']}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*.py"))
        if "build" not in path.parts
    }
    files |= {f"{stem}.dist-info/{name}": text.encode() for name, text in _about(project).items()}
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return f"{stem}-py3-none-any.whl", into.getvalue()


def _about(project: dict[str, Any]) -> dict[str, str]:
    head = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
    head |= {"Summary": project["description"], "Requires-Python": project["requires-python"]}
    needs = [f"Requires-Dist: {each}" for each in project["dependencies"]]
    scripts = [f"{name} = {where}" for name, where in project["scripts"].items()]
    return {
        "METADATA": "\n".join([*(f"{name}: {value}" for name, value in head.items()), *needs, ""]),
        "WHEEL": _WHEEL,
        "entry_points.txt": "\n".join(["[console_scripts]", *scripts, ""]),
    }


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
