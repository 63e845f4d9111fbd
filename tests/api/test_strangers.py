"""What a stranger finds of a job that is private (LONGSHORE_JOB_PRIVACY=owner): on no page and in no answer a word of
its config. Each part of that has a name of its own here, so what is told is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from base.models import User
from clusters.engines import schemes
from jobs.logs.follow import hub
from jobs.models import Job
from tests.api.test_privacy import addresses, by_api
from tests.builders import make_job
from tests.cluster import Clock, Cluster
from tests.http import Client

pytestmark = pytest.mark.django_db(transaction=True)

Api = Callable[[User | None], APIClient]
Browse = Callable[[User | None], Client]
ROLE, WORDS = "qqrole", ("qqrole", "qqimage", "qqlabel", "qqcommand", "qqenv", "qqfile", "qqvalue", "qqport")
# The job's own page and detail say what its tasks hold by their roles, as v1 did.
BY_ROLES = tuple(
    ["/jobs/alice/hello", "/api/job/hello"]
    + [f"/api/{of}/hello" for of in ("v1/user/alice/jobs", "v1/jobs", "v2/user/alice/jobs", "v2/jobs")]
    + [f"/api/{of}/alice~hello" for of in ("v1/jobs", "v2/jobs")]
)
MORE = ("/timeline?view=table", "/timeline?task=1", "/nodes/n1", "/api/v1/nodes/n1", "/metrics", "/jobs?keyword=hello")


@pytest.fixture
def job(alice: User, settings: Any, tmp_path: Path) -> Iterator[Job]:
    settings.HOME, settings.JOB_PRIVACY = tmp_path, "owner"
    cluster = Cluster(alice, Clock())
    cluster.add_node()
    role = {"name": ROLE, "command": "echo qqcommand", "portList": [{"label": "qqport", "portNumber": 1}]}
    extras = {"nodeLabels": {"qqlabel": "qqvalue"}, "avoidNodes": []}
    job = cluster.submit(
        name="hello", image="hub/qqimage", jobEnvs={"qqenv": "qqvalue"}, codeDir="/qqfile", roles=[role]
    )
    cluster.settle()
    make_job("alice", "labelled", config={"extras": extras})
    yield job
    schemes.set_engine_factory(None)
    hub.close()


@pytest.mark.parametrize("anonymous", ["jobs", "all"])
def test_no_page_and_no_answer_has_a_word_of_its_config(
    settings: Any, api: Api, browse: Browse, job: Job, alice: User, bob: User, anonymous: str
) -> None:
    settings.ANONYMOUS_READ = anonymous
    # What was refused stands in the audit of whoever asked, with the address.
    asked = [each for each in addresses() if "/audit" not in each]
    walked = [address.replace("worker", ROLE) for address in (*asked, *MORE)]
    assert {word for address in walked for word in _told(api, browse, alice, address)} == {*WORDS}
    for who in (bob, None):
        found = {address: words for address in walked if (words := _told(api, browse, who, address))}
        assert {each for each in found if not each.startswith(BY_ROLES)} == set()
        assert {word for words in found.values() for word in words} <= {ROLE}


def _told(api: Api, browse: Browse, who: User | None, address: str) -> set[str]:
    answer = (api if by_api(address) else browse)(who).get(address)
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[union-attr]
    shown = body.decode(errors="replace")
    return {word for word in WORDS if word in shown and word not in address}  # what was asked for may be repeated
