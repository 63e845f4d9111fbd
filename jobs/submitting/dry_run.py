"""Says what a submission would lead to, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from base.core.errors import InvalidConfig, Problem
from base.models import User
from clusters.placement.fit import Blocker
from jobs import admission, dependencies
from jobs.config.spec import JobSpec
from jobs.forecast.outlook import Outlook, outlook
from jobs.reading import read


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a submission would lead to. With ``problems`` it is refused. Without them ``outlook`` says whether and when
    it would start; a job that ``never`` can, submitted all the same, fails at once."""

    problems: tuple[Problem, ...]
    spec: JobSpec | None = None
    outlook: Outlook | None = None
    never: Blocker | None = None

    @property
    def is_valid(self) -> bool:
        return not self.problems

    @property
    def blockers(self) -> Sequence[Blocker]:
        """What keeps it from starting now."""
        return self.outlook.blockers if self.outlook and not self.never else ()

    @property
    def pull(self) -> str:
        """Which image is pulled first, if it starts now."""
        return self.outlook.pull if self.outlook else ""


def check_config(config: Any, user: User | None = None) -> CheckResult:
    """Say what ``services.submit`` would answer to this config; with ``user``, also whether they may submit it. Raises
    TooLarge only."""
    try:
        text, spec = read(config, username=user.username if user else "")
    except InvalidConfig as error:
        return CheckResult(error.problems or (Problem(1, 1, "", error.message),))
    problem = admission.refusal(user, text, spec) if user else None
    awaited = [each.awaited for each in dependencies.find(user.username, spec)] if user and not problem else []
    view = outlook(spec, [job for job in awaited if not job.is_met], user.username if user else "")
    never = view.never or dependencies.in_vain(awaited)
    return CheckResult((problem,) if problem else (), spec, view, never)
