"""One trial: nodes, a portal, jobs and faults by plan, then calm, then the verdict."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from clusters.engines.docker.runtime import DockerRuntime
from clusters.engines.sample_image import ensure_sample_image
from tests.acceptance.portal import Json, Portal, remove_containers
from tests.bed.docker_bed import BedNode
from tests.bed.postgres_bed import Postgres
from tests.chaos import judge
from tests.chaos.faults import Faults
from tests.chaos.jobs import SECRET, body
from tests.chaos.judge import Verdict
from tests.chaos.plan import Deed
from tests.chaos.witness import Witness
from tests.helpers import LIMIT, until

GPUS, CPUS = 4, 8
CALM = LIMIT  # seconds that may pass without any change once all is whole
USERS = {
    "submit": ("POST", "/jobs"),
    "stop": ("PUT", "/user/admin/jobs/{}/executionType"),
    "delete": ("DELETE", "/user/admin/jobs/{}"),
}
Failed = pytest.fail.Exception  # of until; no Exception


@dataclass
class Result:
    verdict: Verdict
    jobs: int
    runs: int
    faults: Counter[str]
    refused: Counter[int]
    broken: list[str]
    seconds: float
    calm_after: float
    evidence: str = ""

    @property
    def clean(self) -> bool:
        return self.verdict.clean and not self.broken

    def __str__(self) -> str:
        found = self.verdict.found
        lines = [
            f"{self.jobs} jobs in {self.seconds:.0f} s, {self.runs} containers seen by the witness",
            f"{self.faults.total()} faults: " + ", ".join(f"{what} {n}" for what, n in sorted(self.faults.items())),
            f"calm {self.calm_after:.0f} s after the last was mended; the portal answered with errors: "
            + (", ".join(f"{n} x {code}" for code, n in sorted(self.refused.items())) or "none"),
            ", ".join(f"{kind} {len(found[kind])}" for kind in judge.KINDS)
            + f"; again within an attempt {len(self.verdict.again)}, outlived on a lost node {self.verdict.outlived}",
        ]
        lines += [f"  {kind}: {sentence}" for kind in judge.KINDS for sentence in found[kind]]
        lines += [f"  again: {sentence}" for sentence in self.verdict.again]
        lines += [f"  the trial itself: {sentence}" for sentence in self.broken]
        return "\n".join([*lines, self.evidence]).rstrip()


@dataclass
class Trial:
    portal: Portal
    nodes: list[BedNode]
    witness: Witness
    faults: Faults
    began: float = field(default_factory=time.monotonic)
    refused: Counter[int] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    tell: Callable[[str], None] = lambda text: None
    whole: Callable[[], None] = lambda: None  # called once all deeds are done, before the trial waits for calm

    def run(self, deeds: list[Deed]) -> Result:
        names = [deed.where for deed in deeds if deed.what == "submit"]
        self.began = time.monotonic()
        self._do(deeds)
        self.whole()
        whole = time.monotonic()
        self._wait_calm(names)
        calm_after = time.monotonic() - whole
        verdict = judge.judge(self.portal, self.nodes, self.witness, names, self.faults)
        return Result(
            verdict,
            len(names),
            len(self.witness.runs),
            self.faults.done,
            self.refused,
            self.broken,
            time.monotonic() - self.began,
            calm_after,
            self._evidence(names, verdict),
        )

    def _do(self, deeds: list[Deed]) -> None:
        """Users, each node and the portal go through their own deeds, one after the other, all at the same time."""
        crews: dict[str, list[Deed]] = {"users": [], "": [], **{node: [] for node in self.faults.nodes}}
        for deed in deeds:
            crews["users" if deed.what in USERS else deed.where].append(deed)
        threads = [threading.Thread(target=self._work, args=(mine,)) for mine in crews.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.faults.heal()

    def _work(self, deeds: list[Deed]) -> None:
        for deed in deeds:
            time.sleep(max(0.0, self.began + deed.at - time.monotonic()))
            self.tell(f"{time.monotonic() - self.began:6.1f}  {deed.what} {deed.where} {deed.lasts or ''}")
            try:
                if deed.what in USERS:
                    self._ask(deed)
                else:
                    self.faults.commit(deed)
            except (Exception, Failed) as error:
                self.broken.append(f"{deed}: {type(error).__name__}: {error}")

    def _ask(self, deed: Deed) -> None:
        """As a stubborn user does: again until it was taken. It may have been taken although the answer was lost."""
        method, path = USERS[deed.what]
        sent = body(deed.where) if deed.what == "submit" else {"value": "STOP"} if deed.what == "stop" else None
        until(
            lambda: self._taken(method, path.format(deed.where), sent), CALM, 0.3, what=f"{deed.what} of {deed.where}"
        )

    def _taken(self, method: str, path: str, sent: Json | None) -> bool:
        try:
            answer = self.portal.http.request(method, path, json=sent)
        except httpx.TransportError:
            return False
        if answer.status_code >= 500:
            self.refused[answer.status_code] += 1
            return False
        assert answer.status_code in (200, 201, 202, 409 if method == "POST" else 404), answer.text
        return True

    def _wait_calm(self, names: list[str]) -> None:
        """Until nothing is left to do, or nothing has happened for too long."""
        last, since = None, time.monotonic()
        while time.monotonic() - since < CALM:
            try:
                left = [*judge.not_ended(self.portal, names), *judge.leftovers(self.portal, self.nodes, self.witness)]
            except Exception as error:  # its web process or database may still be starting
                left = [repr(error)]
            if not left:
                return
            if left != last:
                last, since = left, time.monotonic()
                self.tell(f"{since - self.began:6.1f}  {len(left)} are left, {left[0]}")
            time.sleep(1)

    def _evidence(self, names: list[str], verdict: Verdict) -> str:
        told = " ".join(sentence for sentences in verdict.found.values() for sentence in sentences)
        guilty = [name for name in names if f"{name} " in told][:20]
        return "\n".join(f"{name}\n{judge.evidence(self.portal, self.witness, name)}" for name in guilty)


@contextmanager
def trial(home: Path, nodes: list[BedNode], database: Postgres | None, seed: int) -> Iterator[Trial]:
    """A portal of its own on these nodes, each of which has four pretended GPUs and the sample image."""
    settings = {"LONGSHORE_NODE_LOST_AFTER": "5", "LONGSHORE_DEBUG_HOLD": "4"}
    if database is not None:
        settings["DATABASE_URL"] = database.url
    portal = Portal(home, f"unix://{home}/no-engine-here", **settings)
    with ExitStack() as stack:
        stack.callback(lambda: [remove_containers(node, portal) for node in nodes])
        stack.callback(portal.close)
        witness = Witness()
        stack.callback(witness.close)
        for node in nodes:
            ensure_sample_image(DockerRuntime(node.unix))
            witness.watch(node)
        portal.start()
        for node in nodes:
            portal.add_node(node, gpuNumber=GPUS, cpuNumber=CPUS)
        portal.wait_ready()
        _put_code(portal)
        faults = Faults(portal, nodes, database, seed)
        stack.callback(faults.heal)
        yield Trial(portal, nodes, witness, faults)


def _put_code(portal: Portal) -> None:
    root, who = portal.url, {"Authorization": portal.http.headers["Authorization"]}
    where = f"{root}/webhdfs/v1/users/admin/chaos-code/secret?op=CREATE&overwrite=true&data=true"
    answer = httpx.put(
        where, content=SECRET, headers={**who, "Content-Type": "application/octet-stream"}, timeout=LIMIT
    )
    assert answer.status_code == 201, answer.text
