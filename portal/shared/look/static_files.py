"""Joins the stylesheet, of which pages load one file, and runs collectstatic unless nothing has changed since the last
time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

# Of static/css/longshore, in the order of the cascade: a later section may change what an earlier one says.
SECTIONS = (
    *("tokens", "base", "frame", "states", "tables", "job", "log", "code", "helpers", "editor", "narrow", "files"),
    *("log_page", "nodes", "wall", "figures", "plots", "terminal", "notebooks", "notices"),
)


class Storage(CompressedManifestStaticFilesStorage):
    """Files have their digest in their names, also where one script imports another."""

    support_js_module_import_aggregation = True
    max_post_process_passes = 30  # a pass for each script between a page's first and the last that it needs

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._urls: dict[str, str] = {}

    def url(self, name: str, force: bool = False) -> str:
        """Looked up once: each page has twenty of them, and takes a tenth of a millisecond for one."""
        if name not in self._urls:
            self._urls[name] = super().url(name, force)
        return self._urls[name]

    def post_process(self, *given: Any, **more: Any) -> Iterator[Any]:
        """Other files have other digests."""
        yield from super().post_process(*given, **more)
        self._urls.clear()


def collect() -> bool:
    """True when the files were collected, False when they were up to date."""
    stamp: Path = settings.STATIC_ROOT / ".stamp"
    now = _fingerprint()
    if stamp.is_file() and stamp.read_text() == now:
        return False
    join()
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(now)
    return True


def join() -> None:
    """Write css/longshore.css where collectstatic finds it."""
    source, joined = map(Path, settings.STATICFILES_DIRS)
    path = joined / "css" / "longshore.css"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join((source / f"css/longshore/{section}.css").read_text() for section in SECTIONS))


def _fingerprint() -> str:
    digest = hashlib.sha256(settings.RELEASE.encode())
    for path in sorted((settings.BASE_DIR / "static").rglob("*")):
        about = path.stat()
        digest.update(f"{path}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
    return digest.hexdigest()
