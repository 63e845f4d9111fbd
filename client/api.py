"""The package's front: a portal, and what a user can ask of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union, cast

from .account import load
from .errors import NotThere, PortalAway, refused
from .jobs import RemoteJob, named
from .transport import Transport, quoted

Config = Union[str, Mapping[str, Any]]


class Client:
    """A portal as one user sees it. Without arguments it is the one of ``longshore login``, or of LONGSHORE_URL and
    LONGSHORE_TOKEN."""

    def __init__(self, url: str = "", token: str = "") -> None:
        self.account = load(url, token)
        self.transport = Transport(self.account)

    @property
    def username(self) -> str:
        return self.account.user

    def jobs(self, *, user: str | None = None, limit: int = 50, **which: str) -> list[RemoteJob]:
        """Jobs, newest first: one's own, or of another ``user``; of all with an empty text. ``which``: vc, state,
        keyword, since, as the API has them."""
        owner = self.username if user is None else user
        path = f"/api/v1/user/{quoted(owner)}/jobs" if owner else "/api/v1/jobs"
        rows = self.transport.json("GET", path, limit=limit, **{"with": "userExitCode", **which})
        return [RemoteJob(self.transport, row["username"], row["name"], row) for row in rows]

    def job(self, name: str) -> RemoteJob:
        """A job by ``name`` or ``user~name``. Nothing is asked yet."""
        return named(self.transport, name)

    def check(self, config: Config) -> dict[str, Any]:
        """What a submission would lead to: ``valid``, ``errors`` with line and column, ``neverFits``, ``blockers``."""
        return cast("dict[str, Any]", self.transport.json("POST", "/api/v1/jobs/validate", _text(config)))

    def submit(self, config: Config) -> RemoteJob:
        """Submit a job config, as text (comments may stand in it) or as values. Raises WrongConfig with each
        problem, and Taken where it is the name alone."""
        found = self.check(config)
        if not found["valid"]:
            raise refused(found["errors"], [problem_line(each) for each in found["errors"]])
        return self._post(config)

    def _post(self, config: Config) -> RemoteJob:
        made = self.transport.json("POST", f"/api/v1/user/{quoted(self.username)}/jobs", _text(config))
        return RemoteJob(self.transport, made["jobStatus"]["username"], made["name"])

    def _surely(self, config: Mapping[str, Any], tell: Callable[[str], None] | None) -> RemoteJob:
        """Post it, and know whether it is there where the answer is lost. Ctrl-C waits for the answer."""
        from .running import held_back

        try:
            with held_back():
                return self._post(config)
        except PortalAway as error:
            job = self.job(config["jobName"])
            try:
                self.transport.patiently(job.detail, tell and (lambda why: tell(why or "The portal is back.")))
            except NotThere:
                raise error from None
            return job

    def run(
        self,
        command: str,
        *,
        folder: str = ".",
        name: str = "",
        tell: Callable[[str], None] | None = None,
        **asked: Any,
    ) -> RemoteJob:
        """Upload the folder and submit a job of one task that runs the command in it. ``asked``: image, vc, gpus, cpus,
        memory, as ``longshore run`` takes them. A config that is refused, or a folder too large, uploads
        nothing. ``tell`` gets sentences."""
        from . import running

        path = Path(folder).resolve()
        if not path.is_dir():
            raise NotThere(f"{folder} is no folder.")
        name = name or running.new_name(path)
        code = running.code_folder(self.account, path, name)
        config = running.config_of(name, command, code, **asked)
        found = self.check(config)
        running.refuse(found)
        running.refuse_size(path, found.get("codeLimit"))
        with running.uploaded(self.account, path, code, tell):
            return self._surely(config, tell)

    def usage(self, *, begin: str = "", end: str = "", by: str = "", vc: str = "") -> dict[str, Any]:
        """Who used how much: ``rows`` by user, vc, state or day, and ``total``."""
        params = {"from": begin, "to": end, "by": by, "vc": vc}
        return cast("dict[str, Any]", self.transport.json("GET", "/api/v1/usage", **params))

    def again(self, name: str, *, as_name: str = "", **changed: Any) -> RemoteJob:
        """Submit the config of a job anew, under another name; ``changed`` as ``run`` takes it, for each role."""
        from . import running

        config = running.changed(self.job(name).config(), **changed)
        taken = {job.name for job in self.jobs(keyword=running.stem(config["jobName"]), limit=1000)}
        return self.submit({**config, "jobName": as_name or running.next_name(config["jobName"], taken)})

    def copy(self, source: str, target: str, *, force: bool = False) -> int:
        """Copy a file or folder; a path of the store begins with ``store:``. What is there already is known, and with
        ``force`` replaced. Returns how many files were copied."""
        from .copying import copy
        from .pai_fs.copying import CopyOptions

        return copy(self.account, source, target, CopyOptions(force=force, missing=not force)).files


def problem_line(problem: Mapping[str, Any]) -> str:
    where = f"line {problem['line']}, column {problem['column']}: " if problem.get("line") else ""
    return f"{where}{problem['message']}"


def _text(config: Config) -> str:
    return config if isinstance(config, str) else json.dumps(config, indent=2)
