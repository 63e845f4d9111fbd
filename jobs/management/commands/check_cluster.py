"""``manage.py check_cluster``: real jobs through every node, and a table of what failed. Exit code 0 when all works."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from base.models import User
from clusters.engines.sample_image import SAMPLE_IMAGE
from clusters.models import Node
from jobs.checking import run
from jobs.checking.plan import PARTS, NodeCheck


class Command(BaseCommand):
    help = "Runs small jobs on every node: start, ports, peers, GPU, log, retry. Exit code 1 when something fails."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("nodes", nargs="*", help="only these nodes")
        parser.add_argument("--seconds", type=int, default=run.CHECK_LIMIT, help="the limit of the whole check")
        parser.add_argument("--user", help="the admin whose jobs they are; the first one by default")
        parser.add_argument("--image", default=SAMPLE_IMAGE, help="one with sh, httpd, wget and nc; it is pulled")
        parser.add_argument("--json", action="store_true", help="print the rows as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if unknown := set(options["nodes"]) - set(Node.objects.values_list("name", flat=True)):
            raise CommandError(f"There is no node {', '.join(sorted(unknown))}.", returncode=2)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that it cleans up
        say = self.stderr.write if options["json"] else self.stdout.write
        rows = run.check(
            _admin(options["user"]),
            only=options["nodes"],
            seconds=options["seconds"],
            image=options["image"],
            say=lambda text: say(text),
        )
        self.stdout.write(_json(rows) if options["json"] else "\n".join(_table(rows)))
        if not all(row.works for row in rows):
            sys.exit(1)


def _admin(username: str | None) -> User:
    admins = User.objects.filter(is_admin=True, is_active=True).order_by("id")
    admin = admins.filter(username=username).first() if username else admins.first()
    if admin is None:
        raise CommandError(f"There is no admin {username or ''}".strip() + ".", returncode=2)
    return admin


def _table(rows: list[NodeCheck]) -> list[str]:
    wide = max((len(row.node) for row in rows), default=4)
    lines = ["".join([f"{'node':<{wide}}", *(f"  {part:<6}" for part in PARTS)]).rstrip()]
    for row in rows:
        lines.append("".join([f"{row.node:<{wide}}", *(f"  {cell:<6}" for cell in row.cells)]).rstrip())
    said = [f"{row.node}: {sentence}" for row in rows for sentence in row.says]
    works = sum(row.works for row in rows)
    skipped = sum(bool(row.skipped) for row in rows)
    unknown = f", {skipped} not checked" if skipped else ""
    return [*lines, "", *said, f"{works} of {len(rows)} nodes work{unknown}."]


def _json(rows: list[NodeCheck]) -> str:
    shown = [{"node": row.node, "works": row.works, **dict(zip(PARTS, row.cells, strict=True)), "says": row.says}
             for row in rows]  # fmt: skip
    return json.dumps(shown, indent=2)
