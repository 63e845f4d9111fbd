"""Reads rules: data that say which evidence means which cause (docs/run/diagnosis-rules.md has the format). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from base.core.errors import Problem
from jobs.config.yaml_text import is_plain
from jobs.diagnosis.template import MessageTemplate, NoTemplate, template

LARGEST = 256 * 1024  # characters of a file
MOST_RULES = 2000
MOST_TEMPLATES = 60  # of one rule
MAX_DEPTH = 8
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, where PyYAML has it: ten times as fast

Whose = Literal["program", "request", "image", "node", "platform"]
Sure = Literal["certain", "likely", "possible"]


def _list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _template(text: Any) -> MessageTemplate:
    if not isinstance(text, str):
        raise ValueError("A template is a text.")
    return template(text)


Templates = Annotated[
    tuple[Annotated[MessageTemplate, BeforeValidator(_template)], ...],
    BeforeValidator(_list),
    Field(max_length=MOST_TEMPLATES),
]
Codes = Annotated[tuple[int, ...], BeforeValidator(_list)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_list)]
Words = Annotated[str, Field(max_length=400)]


class Retry(BaseModel):
    """What the button of a cause asks for more of: a factor of what the task had."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory: float | None = Field(None, gt=1, le=16)
    shm: float | None = Field(None, gt=1, le=64)
    elsewhere: bool = False


class Rule(BaseModel):
    """One rule. All conditions that it names must hold: ``log`` when one of its templates fits a line, ``besides`` when
    each of its templates fits one, ``without`` when none does; ``sentence`` when one fits what the exit table says; of
    ``code``, ``exit``, ``signal`` and ``fault`` one of the values is that of the task; ``event``: its node had one of
    these while the job ran; ``peak``: it used at least this part of its memory.

    ``follows``: it shows that another task ended, so it is no cause while any task shows another one. ``suspect``:
    alone makes the task's node suspect; shared does so when several tasks of one node show it and none of another node
    does. Of rules that hold the one with the highest ``rank`` is chosen, of equals the one whose line is nearest to the
    end."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)
    cause: str = Field("", pattern=r"^([a-z0-9]+(-[a-z0-9]+)*)?$", max_length=60)
    name: str = Field(min_length=3, max_length=60)
    whose: Whose
    sure: Sure = "likely"
    rank: int = Field(50, ge=0, le=100)
    log: Templates = ()
    besides: Templates = ()
    sentence: Templates = ()
    without: Templates = ()
    code: Codes = ()
    exit: Codes = ()
    signal: Texts = ()
    fault: Texts = ()
    event: Texts = ()
    oom: bool | None = None
    peak: float | None = Field(None, gt=0, le=1)
    follows: bool = False
    suspect: Literal["alone", "shared"] | None = None
    says: Words = Field(min_length=3)
    next: Words = ""
    retry: Retry = Retry()

    @property
    def of_cause(self) -> str:
        """The id of the cause, which several rules may have."""
        return self.cause or self.id

    @property
    def has_condition(self) -> bool:
        conditions = (self.log, self.sentence, self.code, self.exit, self.signal, self.fault, self.event)
        return any(conditions) or self.oom is not None or self.peak is not None


@dataclass(frozen=True, slots=True)
class Book:
    """The rules in the order in which they were written, without those that cannot be read. ``remove``: rules of
    earlier files that this one takes out; ``problems``: what is wrong with the text, by line and column."""

    rules: tuple[Rule, ...] = ()
    remove: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = field(default=())


def read(text: str, loader: Any = _FAST) -> Book:
    """The rules in a YAML text: {"rules": [...], "remove": [ids]}. Whatever is wrong becomes a Problem."""
    if len(text) > LARGEST:
        return Book(problems=(Problem(1, 1, "", f"The file is longer than {LARGEST // 1024} kB."),))
    try:
        if not is_plain(text, MAX_DEPTH, loader):
            raise ValueError("it is nested too deep or has an alias.")
        node = yaml.compose(text, Loader=loader)
        value = yaml.load(text, Loader=loader)  # noqa: S506 - a safe one
    except yaml.MarkedYAMLError as error:
        if loader is not yaml.SafeLoader:
            return read(text, yaml.SafeLoader)  # it knows better where the fault is
        mark = error.problem_mark or error.context_mark
        where = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return Book(problems=(Problem(*where, "", f"This is no YAML: {error.problem or error.context}."),))
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return Book(problems=(Problem(1, 1, "", f"This is no YAML: {str(error).splitlines()[0]}"),))
    if node is None:
        return Book()
    return _RuleReader(node).book(value)


def joined(books: Iterable[Book]) -> tuple[Rule, ...]:
    """All rules of several files. A rule of a later file replaces one of its id; ``remove`` takes rules out."""
    rules: dict[str, Rule] = {}
    for book in books:
        rules = {id: rule for id, rule in rules.items() if id not in book.remove}
        rules |= {rule.id: rule for rule in book.rules}
    return tuple(rules.values())


class _RuleReader:
    """Knows where in the text each value stands."""

    def __init__(self, node: yaml.Node) -> None:
        self.places: dict[tuple[str | int, ...], tuple[int, int]] = {}
        self._walk(node, ())
        self.problems: list[Problem] = []

    def book(self, value: Any) -> Book:
        if not isinstance(value, dict) or set(value) - {"rules", "remove"}:
            self._problem((), "The file has the keys rules and remove, and no others.")
            return Book(problems=tuple(self.problems))
        rules = list(self._rules(value.get("rules") or []))
        remove = value.get("remove") or []
        if not isinstance(remove, list) or not all(isinstance(id, str) for id in remove):
            self._problem(("remove",), "remove is a list of ids.")
            remove = []
        return Book(tuple(rules), tuple(remove), tuple(self.problems))

    def _rules(self, rows: Any) -> Iterator[Rule]:
        if not isinstance(rows, list) or len(rows) > MOST_RULES:
            self._problem(("rules",), f"rules is a list of at most {MOST_RULES} rules.")
            return
        seen: set[str] = set()
        for at, row in enumerate(rows):
            rule = self._rule(row, ("rules", at))
            if rule is None:
                continue
            if rule.id in seen:
                self._problem(("rules", at, "id"), f"There is a rule {rule.id} already.")
            elif not rule.has_condition:
                self._problem(("rules", at), f"Rule {rule.id} has no condition, so it would always hold.")
            else:
                seen.add(rule.id)
                yield rule

    def _rule(self, row: Any, path: tuple[str | int, ...]) -> Rule | None:
        try:
            return Rule.model_validate(row)
        except ValidationError as invalid:
            for each in invalid.errors(include_url=False):
                self._problem((*path, *each["loc"]), _says(each))
        return None

    def _problem(self, path: tuple[str | int, ...], message: str) -> None:
        while path and path not in self.places:
            path = path[:-1]
        self.problems.append(Problem(*self.places.get(path, (1, 1)), "", message))

    def _walk(self, node: yaml.Node, path: tuple[str | int, ...]) -> None:
        self.places[path] = node.start_mark.line + 1, node.start_mark.column + 1
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._walk(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for at, value in enumerate(node.value):
                self._walk(value, (*path, at))


def _says(error: Mapping[str, Any]) -> str:
    where = ".".join(str(step) for step in error["loc"]) or "The rule"
    cause = (error.get("ctx") or {}).get("error")
    if isinstance(cause, NoTemplate):
        return f"{where}: {cause.message} (character {cause.at + 1} of the template)"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}."
