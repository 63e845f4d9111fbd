"""Adds users from a CSV file as v1's portal took it: ``username,password,admin,virtual cluster,githubPAT``.

It is all or nothing: with one bad line nothing is written, so the corrected file can be sent again as it is.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction

from clusters.models import VirtualCluster
from clusters.users import rules
from clusters.vcs.rules import DEFAULT
from portal.accounts import audit, passwords
from portal.accounts.viewer import Viewer, require_admin
from portal.core.errors import BadRequest, ConflictUser, LongshoreError, TooLarge
from portal.models import User

COLUMNS = ("username", "password", "admin", "virtual cluster", "githubPAT")
TEMPLATE = ",".join(COLUMNS) + '\nmira,choose-one,false,"default",\n'
MOST_ROWS = 500
MOST_TEXT = 1_000_000  # characters
CREATE, REFUSE = "create", "refuse"
_REQUIRED = {"username", "password"}
_YES, _NO = {"true", "yes", "1"}, {"false", "no", "0", ""}


@dataclass(frozen=True, slots=True)
class ImportRow:
    line: int  # in the file, from 1
    username: str
    action: str  # create | refuse
    problem: str = ""
    admin: bool = False
    vcs: tuple[str, ...] = ()  # besides default


@dataclass(frozen=True, slots=True)
class ImportResult:
    rows: list[ImportRow]
    written: bool

    @property
    def problems(self) -> int:
        return sum(1 for row in self.rows if row.problem)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    username: str
    password: str
    admin: bool
    vcs: tuple[str, ...]
    has_github_pat: bool


def import_csv(actor: Viewer, text: str, *, dry_run: bool, ip: str | None = None) -> ImportResult:
    """Add the users, or with ``dry_run`` only say what it would do. BadRequest when the text is no such file."""
    who = require_admin(actor).username
    rows: list[ImportRow] = []
    lines: list[_Line] = []
    taken = set(User.objects.values_list("username", flat=True))
    for number, cells in _cells(text):
        username = cells.get("username", "")
        try:
            line = _line(number, cells, taken)
            lines.append(line)
            rows.append(ImportRow(number, username, CREATE, admin=line.admin, vcs=_besides_default(line)))
            taken.add(username)
        except LongshoreError as error:
            rows.append(ImportRow(number, username, REFUSE, error.message))
    fine = len(lines) == len(rows)
    if fine and not dry_run:
        _write(who, lines, ip)
    return ImportResult(rows, written=fine and not dry_run)


def _besides_default(line: _Line) -> tuple[str, ...]:
    return tuple(vc for vc in line.vcs if vc != DEFAULT)


def _cells(text: str) -> list[tuple[int, dict[str, str]]]:
    """Line number and cells by column name. Semicolons are taken too, as some spreadsheets write them."""
    if len(text) > MOST_TEXT:
        raise TooLarge(f"The file is longer than {MOST_TEXT} characters.")
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    first = lines[0] if lines else ""
    reader = csv.reader(lines, delimiter=";" if ";" in first and "," not in first else ",", strict=True)
    found: list[tuple[int, dict[str, str]]] = []
    try:
        names = _header(next(reader, []))
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(names):
                raise BadRequest(f"Line {reader.line_num} has {len(cells)} cells, the first line names {len(names)}.")
            found.append((reader.line_num, dict(zip(names, cells, strict=False))))
    except csv.Error as error:
        raise BadRequest(f"Line {reader.line_num} cannot be read: {error}.") from None
    if not 0 < len(found) <= MOST_ROWS:
        raise BadRequest(f"The file must have 1 to {MOST_ROWS} users below its first line; it has {len(found)}.")
    return found


def _header(cells: list[str]) -> list[str]:
    known = {name.lower().replace(" ", ""): name for name in COLUMNS}
    names = [known.get(cell.strip().lower().replace(" ", ""), "") for cell in cells]
    if not set(names) >= _REQUIRED or "" in names or len(set(names)) < len(names):
        raise BadRequest(f"The first line must name the columns: {','.join(COLUMNS)}")
    return names


def _line(number: int, cells: dict[str, str], taken: set[str]) -> _Line:
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
    return _Line(number, username, password, admin in _YES, vcs, bool(cells.get("githubPAT", "").strip()))


def _write(who: str, lines: list[_Line], ip: str | None) -> None:
    hashes = [make_password(line.password) for line in lines]  # slow on purpose: not while the database is locked
    try:
        with transaction.atomic():
            for line, hashed in zip(lines, hashes, strict=True):
                _make(who, line, hashed, ip)
    except IntegrityError:
        raise ConflictUser("Somebody made one of these users meanwhile. Nothing was written; check again.") from None


def _make(who: str, line: _Line, hashed: str, ip: str | None) -> None:
    user = User(username=line.username, is_admin=line.admin, has_github_pat=line.has_github_pat, password=hashed)
    user.save(force_insert=True)
    granted: list[VirtualCluster] = [] if line.admin or not line.vcs else rules.known_vcs(line.vcs)
    rules.write_grants(line.username, granted)
    data = {"admin": line.admin, "virtualClusters": [vc.name for vc in granted], "csvLine": line.number}
    audit.record(who, "user made", line.username, ip, data)
