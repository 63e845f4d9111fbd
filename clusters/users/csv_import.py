"""Adds users from a CSV file as v1's portal took it: ``username,password,admin,virtual cluster,githubPAT``.

It is all or nothing: with one bad line nothing is written, so the corrected file can be sent again as it is.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction

from base.accounts import audit, passwords
from base.accounts.viewer import Viewer, require_admin
from base.core.errors import BadRequest, ConflictUser, LongshoreError, TooLarge
from base.models import User
from clusters.models import VirtualCluster
from clusters.users import rules
from clusters.users.left import Left, left_by
from clusters.vcs.rules import DEFAULT_VC

COLUMNS = ("username", "password", "admin", "virtual cluster", "githubPAT")
TEMPLATE = ",".join(COLUMNS) + '\nmira,choose-one,false,"default",\n'
MOST_ROWS = 500
MOST_TEXT = 1_000_000  # characters
_REQUIRED = {"username", "password"}
_YES, _NO = {"true", "yes", "1"}, {"false", "no", "0", ""}


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A user to add, or why not: then only ``line`` (in the file, from 1) and ``username`` are told besides."""

    line: int
    username: str
    problem: str = ""
    password: str = field(default="", repr=False)
    admin: bool = False
    vcs: tuple[str, ...] = ()
    has_github_pat: bool = False
    left: Left | None = None  # by a deleted account of this name

    @property
    def left_sentence(self) -> str:
        return self.left.sentence(self.username) if self.left else ""

    @property
    def besides_default(self) -> list[str]:
        return [vc for vc in self.vcs if vc != DEFAULT_VC]


@dataclass(frozen=True, slots=True)
class ImportResult:
    rows: list[ImportRow]
    written: bool

    @property
    def problems(self) -> int:
        return sum(1 for row in self.rows if row.problem)


def import_csv(actor: Viewer, text: str, *, dry_run: bool) -> ImportResult:
    """Add the users, or with ``dry_run`` only say what it would do. BadRequest when the text is no such file."""
    who = require_admin(actor).username
    rows: list[ImportRow] = []
    taken = set(User.objects.values_list("username", flat=True))
    for number, cells in _cells(text):
        try:
            rows.append(_row(number, cells, taken))
            taken.add(rows[-1].username)
        except LongshoreError as error:
            rows.append(ImportRow(number, cells.get("username", ""), error.message))
    left = left_by([row.username for row in rows if not row.problem])
    rows = [replace(row, left=left.get(row.username)) for row in rows]
    written = not dry_run and not any(row.problem for row in rows)
    if written:
        _write(who, rows)
    return ImportResult(rows, written)


def _cells(text: str) -> list[tuple[int, dict[str, str]]]:
    """Line number and cells by column name. Semicolons are taken too, as some spreadsheets write them."""
    if len(text) > MOST_TEXT:
        raise TooLarge(f"The file is longer than {MOST_TEXT} characters.")
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    first = lines[0] if lines else ""
    reader = csv.reader(lines, delimiter=";" if ";" in first and "," not in first else ",", strict=True)
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        names = _header(next(reader, []))
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(names):
                raise BadRequest(f"Line {reader.line_num} has {len(cells)} cells, the first line names {len(names)}.")
            rows.append((reader.line_num, dict(zip(names, cells, strict=False))))
    except csv.Error as error:
        raise BadRequest(f"Line {reader.line_num} cannot be read: {error}.") from None
    if not 0 < len(rows) <= MOST_ROWS:
        raise BadRequest(f"The file must have 1 to {MOST_ROWS} users below its first line; it has {len(rows)}.")
    return rows


def _header(cells: list[str]) -> list[str]:
    known = {name.lower().replace(" ", ""): name for name in COLUMNS}
    names = [known.get(cell.strip().lower().replace(" ", ""), "") for cell in cells]
    if not set(names) >= _REQUIRED or "" in names or len(set(names)) < len(names):
        raise BadRequest(f"The first line must name the columns: {','.join(COLUMNS)}")
    return names


def _row(number: int, cells: dict[str, str], taken: set[str]) -> ImportRow:
    username = cells.get("username", "").strip()
    rules.check_username(username)
    if username in taken:
        raise ConflictUser(f"User name {username} already exists.")
    password = cells.get("password", "")
    passwords.check(password)
    admin = cells.get("admin", "").strip().lower()
    if admin not in _YES | _NO:
        raise BadRequest(f"admin is {admin!r}; write true or false.")
    names = cells.get("virtual cluster", "").replace(";", ",").split(",")
    vcs = tuple(name.strip() for name in names if name.strip())
    rules.known_vcs(vcs)
    has_github_pat = bool(cells.get("githubPAT", "").strip())
    return ImportRow(number, username, "", password, admin in _YES, vcs, has_github_pat)


def _write(who: str, rows: list[ImportRow]) -> None:
    hashes = [make_password(row.password) for row in rows]  # slow on purpose: not while the database is locked
    try:
        with transaction.atomic():
            for row, hashed in zip(rows, hashes, strict=True):
                _make(who, row, hashed)
    except IntegrityError:
        raise ConflictUser("Somebody made one of these users meanwhile. Nothing was written; check again.") from None


def _make(who: str, row: ImportRow, hashed: str) -> None:
    user = User(username=row.username, is_admin=row.admin, has_github_pat=row.has_github_pat, password=hashed)
    user.save(force_insert=True)
    granted: list[VirtualCluster] = [] if row.admin or not row.vcs else rules.known_vcs(row.vcs)
    rules.write_grants(row.username, granted)
    data = {"admin": row.admin, "virtualClusters": [vc.name for vc in granted], "csvLine": row.line}
    data |= row.left.data() if row.left else {}
    audit.record(who, "user made", row.username, data)
