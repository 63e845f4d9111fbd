"""What the page of virtual clusters shows, and what a change of one would do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from base.accounts.viewer import Viewer, may, reads_all
from base.core import words
from base.core.errors import NoVirtualCluster
from base.core.signals import about_jobs
from base.roles import Permission
from clusters.models import Node, VcGrant
from clusters.nodes.queries import registered_nodes
from clusters.vcs import rules
from clusters.vcs.queries import VcView, load_vcs
from clusters.vcs.rules import DEFAULT_VC, part_of
from jobs.access import may_read_details
from jobs.waiting.users import parts_of
from portal.vcs.settings_form import SettingsForm

MOST_PEOPLE = 60
PARTS = 20  # users on one page of their parts
_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4})?")
_FIELDS = {"capacity": "capacity", "max_capacity": "maximum"}
_STATES = {"RUNNING": "active", "STOPPED": "STOPPED"}


@dataclass(frozen=True, slots=True)
class VcLine:
    """A row of the list. Percentages are of the whole cluster. ``used`` is of its GPUs where there are any, else of the
    resource that it uses most of. A cell is (number, what stands below it)."""

    view: VcView
    gpus: int  # of the cluster
    granted: int  # people who may use it besides admins

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def url(self) -> str:
        return f"/vcs/{self.view.name}"

    @property
    def is_default(self) -> bool:
        return self.view.name == DEFAULT_VC

    @property
    def people(self) -> str:
        if self.is_default:
            return "anyone"
        return words.count(self.granted, "person", "people") if self.granted else "admins only"

    @property
    def state(self) -> str:
        return _STATES[self.view.row.status]

    @property
    def is_stopped(self) -> bool:
        return self.view.row.status != "RUNNING"

    @property
    def used(self) -> float:
        return round(100 * self.view.used["gpu"] / self.gpus, 2) if self.gpus else self.view.used_percent

    @property
    def guaranteed(self) -> str:
        return f"{self.view.row.capacity:g}"

    @property
    def within(self) -> float:
        return min(self.used, self.view.guaranteed)

    @property
    def above(self) -> float:
        return max(0.0, self.used - self.view.guaranteed)

    @property
    def used_cell(self) -> tuple[str, str]:
        if self.gpus:
            gpus = self.view.used["gpu"]
            above = gpus - self.view.total["gpu"]
            return f"{gpus:,}", f"{above:,} above" if above > 0 else ""
        cores = self.view.used["cpu"]
        return f"{self.used:g} %", words.count(cores, "core") if cores else ""

    @property
    def guaranteed_cell(self) -> tuple[str, str]:
        return self._cell(self.view.total["gpu"], self.view.row.capacity, self.view.row.gpu_guarantee)

    @property
    def most_cell(self) -> tuple[str, str]:
        return self._cell(self.view.most_gpus, self.view.row.max_capacity, self.view.row.gpu_ceiling)

    @property
    def says(self) -> str:
        """Return the bar, read aloud."""
        view = self.view
        return f"{view.name}: {self.used:g} % used, {view.guaranteed:g} % guaranteed, at most {view.most:g} %"

    def _cell(self, gpus: int, percent: float, number: int | None) -> tuple[str, str]:
        """``number``: of GPUs, where that is given and not the percentage."""
        own = words.listing(self.view.own, 2) if self.view.own else ""
        if not self.gpus:
            return f"{percent:g} %", own
        given = f"{percent:g} %" if number is None else "a number"
        return f"{gpus:,}", f"{given} and {own}" if own else given


@dataclass(frozen=True, slots=True)
class VcForm:
    """What somebody has typed, and what is wrong with it by field ("" for the whole)."""

    name: str = ""
    capacity: str = ""
    maximum: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    effect: tuple[str, ...] = ()
    checked: bool = False

    @property
    def numbers(self) -> tuple[float, float]:
        """Guaranteed and at most, in percent. Only for a form without errors."""
        return float(self.capacity), float(self.maximum or self.capacity)


def vcs_page(viewer: Viewer) -> dict[str, Any]:
    """The context of vcs/vcs.html. Five queries, however many virtual clusters there are."""
    nodes = registered_nodes()
    gpus, out = cluster_gpus(nodes)
    lines = vc_lines(gpus, nodes)
    return {
        "nav": "vcs",
        "all_nodes": nodes,
        "lines": lines,
        "gpus": gpus,
        "out": out,
        "is_admin": viewer.is_admin,
        "has_above": any(line.above for line in lines),
        "default": lines[0],
    }


def vc_lines(gpus: int, nodes: Sequence[Node] | None = None) -> list[VcLine]:
    return [VcLine(view, gpus, getattr(view.row, "people", 0)) for view in load_vcs(nodes)]


def one_line(lines: list[VcLine], name: str) -> VcLine:
    for line in lines:
        if line.name == name:
            return line
    raise NoVirtualCluster(f"There is no virtual cluster {name}.")


def panel(
    line: VcLine,
    page: Mapping[str, Any],
    viewer: Viewer,
    form: VcForm | None = None,
    settings: SettingsForm | None = None,
    number: int = 1,
) -> dict[str, Any]:
    """What stands below the list (``page``) when one of them is open. Who sets it or reads all sees who may use it.
    ``number`` is the page of its users' parts."""
    may_set, may_grant = (may(viewer, action, vc=line.name) for action in (Permission.SET_VC, Permission.GRANT))
    sees_all = may_grant or reads_all(viewer)
    now = about_jobs().users_of(line.name)
    running = sorted(
        (use for use in now.items() if use[1].running), key=lambda use: (-use[1].gpus, -use[1].running, use[0])
    )
    using = [{"username": name, "jobs": use.running, "gpus": use.gpus} for name, use in running[:MOST_PEOPLE]]
    grants = dict(VcGrant.objects.filter(vc__name=line.name).order_by("username").values_list("username", "manages"))
    names = list(grants) if sees_all and not line.is_default else []
    if may_set and settings is None:
        settings = SettingsForm.of(line.view)
    shown = {use["username"] for use in using}
    others = [name for name in names if name not in shown]
    return {
        "shown": line,
        "settings": settings,
        "choices": settings.choices(line.name, page["all_nodes"]) if settings and not line.is_default else [],
        "form": form or VcForm(line.name, f"{line.view.row.capacity:g}", f"{line.view.row.max_capacity:g}"),
        "may_set": may_set,
        "may_grant": may_grant and not line.is_default,
        "sees_all": sees_all,
        "managers": [name for name, manages in grants.items() if manages],
        "using": using,
        "granted": len(names),
        "bounds": list(_bounds(line, page["lines"])),
        **_parts(line, viewer, number),
        "others": others[:MOST_PEOPLE],
        "more_others": len(others[MOST_PEOPLE:]),
    }


def _parts(line: VcLine, viewer: Viewer, number: int) -> dict[str, Any]:
    """One page of what each user has of it; where jobs are private, of those alone whose details the viewer reads."""
    parts = [part for part in parts_of(line.name) if may_read_details(viewer, part.username)]
    last = max(1, -(-len(parts) // PARTS))
    number = min(max(1, number), last)
    what = "gpu" if line.gpus else "cpu"
    shown = [
        {
            "username": part.username,
            "held": f"{part.held.get(what, 0):,.0f}",
            "lately": words.hours(round(part.lately.get(what, 0), 2)),
            "share": f"{100 * part.share:.0f} %" if part.share >= 0.005 else "0 %",
            "waiting": part.waiting,
            "next": part.next,
        }
        for part in parts[(number - 1) * PARTS : number * PARTS]
    ]
    return {
        "parts": shown,
        "parts_of_gpus": bool(line.gpus),
        "users": len(parts),
        "newer": f"{line.url}?page={number - 1}#shares" if number > 1 else "",
        "older": f"{line.url}?page={number + 1}#shares" if number < last else "",
    }


def _bounds(line: VcLine, lines: Sequence[VcLine]) -> Iterator[str]:
    """What minimum runs say of when borrowed room comes back."""
    most = max((each for each in lines if each is not line), key=lambda each: each.view.row.min_run, default=line)
    if most is not line and most.view.row.min_run:
        least = words.duration(60 * most.view.row.min_run)
        yield (
            f"What others have borrowed of the guarantee of {line.name} comes back in {least} at most, and the time "
            f"that they take to end: the minimum run of {most.name} is {least}."
        )
    if line.view.row.min_run:
        yield f"What its own jobs borrow they keep for {words.duration(60 * line.view.row.min_run)} at least."


def checked_form(form: VcForm, lines: list[VcLine], *, is_new: bool) -> VcForm:
    """The form with its errors, or with what saving it would do."""
    before = next((line for line in lines if line.name == form.name), None)
    default, errors = lines[0], _errors(form)
    if is_new and before is not None:
        errors["name"] = f"There is a virtual cluster {form.name} already."
    if errors:
        return replace(form, errors=errors)
    capacity, most = form.numbers
    if not rules.fits(capacity, rules.room_for(form.name, capacities_of(lines))):
        return replace(form, errors={"capacity": f"default has only {default.view.row.capacity:g} % to give."})
    if before and (before.view.row.capacity, before.view.row.max_capacity) == (capacity, most):
        return replace(form, effect=("Nothing changes: these are the numbers it has now.",), checked=True)
    said = _changes(before, form.name, default.gpus, capacity, most)
    said += [default_says(lines, form.name, capacity), "No running job is touched."]
    return replace(form, effect=tuple(said), checked=True)


def capacities_of(lines: list[VcLine]) -> dict[str, float]:
    return {line.name: line.view.row.capacity for line in lines}


def default_says(lines: list[VcLine], name: str, capacity: float) -> str:
    """What becomes of ``default`` when the virtual cluster ``name`` gets ``capacity`` percent (0: it is deleted)."""
    now, then = lines[0].view.row.capacity, rules.rest_after(name, capacity, capacities_of(lines))
    if now == then:
        return f"default keeps its {now:g} %."
    return f"default {'shrinks' if then < now else 'grows'} from {now:g} % to {then:g} %."


def _errors(form: VcForm) -> dict[str, str]:
    errors: dict[str, str] = {}
    if not rules.is_name(form.name):
        errors["name"] = "Use letters, digits and underscores, 64 at most."
    for name, value in (("capacity", form.capacity), ("maximum", form.maximum or "0")):
        if not _PERCENT.fullmatch(value):
            errors[name] = "Give a number from 0 to 100."
    if not errors and (mistake := rules.find_mistake(*form.numbers)):
        errors[_FIELDS[mistake.field]] = mistake.sentence
    return errors


def _changes(before: VcLine | None, name: str, gpus: int, capacity: float, most: float) -> list[str]:
    if before is None:
        return [f"{name} is new, with {_share(capacity, gpus)} guaranteed and {_share(most, gpus)} at most."]
    said = []
    if before.view.row.capacity != capacity:
        said.append(f"{name}: guarantee {_change(before.view.row.capacity, capacity, gpus)}.")
    if before.view.row.max_capacity != most:
        said.append(f"{name}: at most {_change(before.view.row.max_capacity, most, gpus)}.")
    return said


def _share(percent: float, gpus: int) -> str:
    return f"{percent:g} % ({words.count(part_of(gpus, percent), 'GPU')})" if gpus else f"{percent:g} %"


def _change(now: float, then: float, gpus: int) -> str:
    of_gpus = f", {part_of(gpus, now):,} → {words.count(part_of(gpus, then), 'GPU')}" if gpus else ""
    return f"{now:g} % → {then:g} %{of_gpus}"


def cluster_gpus(nodes: Sequence[Node]) -> tuple[int, str]:
    """How many the registered nodes have, and which of them are away."""
    total, away, names = 0, 0, []
    for node in nodes:
        total += len(node.gpus)
        if node.health != Node.Health.READY and node.gpus:
            away += len(node.gpus)
            names.append(node.name)
    return total, f"{away:,} out of service on {words.listing(names)}" if away else ""
