"""Puts an ended job with a long log into LONGSHORE_HOME.

``python -m benchmarks.data.long_log <megabytes>``
"""

from __future__ import annotations

import itertools
import sys

import django

PATH = "/api/v1/user/user9/jobs/long-log/taskRoles/worker/0/logs/stdout"

if __name__ == "__main__":
    django.setup()
    from base.files.store import open_store
    from jobs.logs.lines import LineIndex
    from jobs.logs.places import place_of, write_index
    from jobs.models import Task
    from tests import builders

    block = b"0123456789 " * 90 + b"\n"
    index, store = LineIndex(), open_store()
    pieces = [block * 1000] * (int(sys.argv[1]) * 1_000_000 // (1000 * len(block)))
    for piece in pieces:
        index.extend(piece)
    builders._number = itertools.count(1_000_000)  # beside what benchmarks.data.fill has made
    job = builders.make_job("user9", "long-log", state="SUCCEEDED", age=60)
    place = place_of(Task.objects.select_related("attempt", "job").get(job=job))
    store.write(f"{place.folder}/stdout", pieces)
    told = {"bytes": index.size, "newlines": index.newlines, "blocks": list(index.blocks)}
    empty = {"bytes": 0, "newlines": 0, "blocks": []}
    write_index(store, place.folder, {"stdout": told, "stderr": empty}, complete=True, reason="")
