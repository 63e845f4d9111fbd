"""Sweeps: one config with parameters becomes many jobs, all of them or none; they are listed and stopped as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone
from pydantic import JsonValue

from base.accounts import budget
from base.core.errors import ConflictJob, InvalidConfig, Mend, NotFound, Problem
from base.models import User
from jobs import queries, reading, secrets, services
from jobs.config import jsonc
from jobs.config.spec import MAX_CONFIG_BYTES, JobSpec, parse
from jobs.config.sweep.expand import Variant, expand
from jobs.config.sweep.parameters import POINTER, BadSweep, SweepSpec, is_sweep, read
from jobs.models import Job, Sweep
from jobs.submitting.dry_run import CheckResult, check_config

MOST_TASKS = 20_000  # of all jobs: they are written in one transaction, and SQLite lets nobody else write meanwhile
OF_A_JOB = 100  # tasks: to write them takes about as long as to write the rest of a job


@dataclass(frozen=True, slots=True)
class Planned:
    """A sweep that was read: what each of its jobs would be submitted as."""

    name: str
    asked: SweepSpec
    variants: tuple[Variant, ...]
    specs: tuple[JobSpec, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """What ``submit`` would answer to a sweep. ``first`` is what would happen to its first job."""

    problems: tuple[Problem, ...]
    planned: Planned | None = None
    first: CheckResult | None = None


def asks_for(config: str) -> bool:
    """Whether this text asks for a sweep. A text that cannot be read does not."""
    try:
        return len(config) <= MAX_CONFIG_BYTES and is_sweep(jsonc.parse(config).value)
    except jsonc.NotJson:
        return False


def check(config: str, user: User) -> Checked:
    """Everything that is wrong with the sweep, at its place in the text; without it what the first job would do."""
    try:
        planned = plan(config, user.username)
    except InvalidConfig as invalid:
        return Checked(invalid.problems)
    if problem := _taken(config, user, planned):
        return Checked((problem,), planned)
    first = check_config(planned.variants[0].config, user)
    return Checked(_in_the_sweep(config, first.problems, planned.variants[0]), planned, first)


def plan(config: str, username: str) -> Planned:
    """The jobs of a sweep, each with a valid config. Raises InvalidConfig with problems at their places in ``config``,
    and TooLarge."""
    document = parse(config)
    if document.faults:
        fault = document.faults[0]
        raise BadSweep(Problem(*document.line_column(fault.at), fault.path, fault.message))
    if not is_sweep(document.value):
        raise BadSweep(Problem(1, 1, POINTER, "This config is no sweep: extras.sweep needs a grid or a list."))
    asked = read(document)
    variants = expand(config, document, asked)
    specs = [_spec(config, variant, username) for variant in variants]
    if (tasks := sum(spec.total_tasks for spec in specs)) > MOST_TASKS:
        says = f"Its {len(specs)} jobs have {tasks:,} tasks together; the most is {MOST_TASKS:,}."
        raise BadSweep(document.problem(POINTER, f"{says} Make it several sweeps."))
    return Planned(str(document.value["jobName"]), asked, tuple(variants), tuple(specs))


def submit(user: User, config: str) -> Sweep:
    """Accept all jobs of the sweep in one transaction, or none. Raises what ``services.submit`` raises."""
    with budget.question(user.username):
        planned = plan(config, user.username)
    tasks = sum(spec.total_tasks for spec in planned.specs)
    with budget.writing(user.username, tasks + OF_A_JOB * len(planned.specs)):
        return _submit(user, config, planned)


def _submit(user: User, config: str, planned: Planned) -> Sweep:
    if taken := _taken(config, user, planned):
        raise ConflictJob(taken.message)
    _give_up(user.username, planned.name)
    sweep = Sweep(
        username=user.username,
        name=planned.name,
        config=secrets.hidden_in(config),
        parameters=list(planned.asked.parameters),
        stop_after=planned.asked.stop_after,
        created_at=timezone.now(),
    )
    pairs = zip(planned.variants, planned.specs, strict=True)
    configs = [(variant.config, _after(spec, at, planned)) for at, (variant, spec) in enumerate(pairs)]
    services.submit_all(user, configs, sweep)
    return sweep


def stop(actor: User, sweep: Sweep) -> services.StoppedMany:
    """Ask for the end of all its jobs. Raises nothing for those that have ended."""
    jobs = queries.visible_jobs().filter(sweep=sweep).defer("config", "spec").order_by("id")
    return services.stop_many(actor, list(jobs))


def _give_up(username: str, name: str) -> None:
    """Delete a sweep of this name that has no job any more."""
    old = Sweep.objects.filter(username=username, name=name)
    old.exclude(pk__in=queries.visible_jobs().filter(sweep__in=old).values("sweep")).delete()


def _taken(config: str, user: User, planned: Planned) -> Problem | None:
    """The first name that a job or a sweep of the user has already. A sweep without any job left gives its name up."""
    jobs = queries.visible_jobs().filter(
        username=user.username, name__in=[variant.name for variant in planned.variants]
    )
    name = jobs.order_by("id").values_list("name", flat=True).first()
    mine = queries.visible_jobs().filter(sweep__username=user.username, sweep__name=planned.name)
    if name is None and not mine.exists():
        return None
    says = f"Job name {name} already exists" if name else f"There is a sweep {planned.name} already."
    free = _free_name(user.username, planned.name)
    return jsonc.parse(config).problem("/jobName", says, Mend(f'Rename to "{free}"', "set", "/jobName", free))


def _free_name(username: str, name: str) -> str:
    """The user's next name of a sweep behind ``name``, which counts on where it ends with a number."""
    names = queries.visible_jobs().filter(username=username).values_list("name", flat=True)
    free = queries.free_name(username, name)
    while free == name or names.filter(name__startswith=f"{free}-").exists():
        head, _, tail = free.rpartition("-")
        free = f"{head}-{int(tail) + 1}" if head and tail.isdigit() and free != name else f"{name}-2"
    return free


def _spec(config: str, variant: Variant, username: str) -> JobSpec:
    try:
        return reading.read(variant.config, username=username)[1]
    except InvalidConfig as invalid:
        problems = _in_the_sweep(config, invalid.problems, variant)
        raise InvalidConfig(f"{variant.name}: {invalid.message}", problems) from None


def _in_the_sweep(config: str, problems: Sequence[Problem], variant: Variant) -> tuple[Problem, ...]:
    """Problems of one job at their places in the text of the sweep."""
    document = jsonc.parse(config)
    values = ", ".join(f"{name} {jsonc.shown(value)}" for name, value in variant.values.items())
    return tuple(
        document.problem(
            each.path,
            f"{each.message} (in {variant.name}: {values})",
            None if "$$" in document.text[document.offset(each.path) :][:200] else each.mend,
        )
        for each in problems
    )


def _after(spec: JobSpec, at: int, planned: Planned) -> JobSpec:
    """The spec of a job that waits for the end of the one ``atOnce`` places before it."""
    lanes = planned.asked.at_once
    if lanes is None or at < lanes:
        return spec
    before: dict[str, JsonValue] = {"job": planned.variants[at - lanes].name, "after": "end"}
    own: list[JsonValue] = [awaited.model_dump() for awaited in spec.asked.depends_on]
    return JobSpec.from_json({**spec.to_json(), "extras": {**spec.extras, "dependsOn": [*own, before]}})


def find(username: str, name: str) -> Sweep:
    """Return the sweep of that user. Raises NotFound when there is none, or none of its jobs is left."""
    sweep = None if "\0" in username + name else Sweep.objects.filter(username=username, name=name).first()
    if sweep is None or not queries.visible_jobs().filter(sweep=sweep).exists():
        raise NotFound(f"Sweep {username}~{name} is not found.")
    return sweep


def values_of(job: Job) -> dict[str, str]:
    """The values of its parameters, of a job of a sweep."""
    sweep = job.spec.get("extras", {}).get("sweep", {})
    values = sweep.get("values", {}) if isinstance(sweep, dict) else {}
    return {str(name): str(value) for name, value in values.items()}
