"""What a stranger finds of a job that is private (LONGSHORE_JOB_PRIVACY=owner): on no page and in no answer a word of
its config. Each part of that has a name of its own here, so what is told is seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from base.models import User
from clusters.appointments import services as appointments
from clusters.engines import schemes
from clusters.engines.image_names import canonical
from clusters.models import Node, VcGrant, VirtualCluster
from jobs.history.ledger import as_read
from jobs.logs.follow import hub
from jobs.models import Attempt, Event, Job, Template
from jobs.planning.exits import OTHER
from tests.api.test_privacy import FAILED, RETRIED, addresses, by_api
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


def test_no_page_and_no_answer_has_a_word_of_its_config(
    settings: Any, api: Api, browse: Browse, job: Job, alice: User, bob: User
) -> None:
    # What was refused stands in the audit of whoever asked, with the address.
    asked = [each for each in addresses() if "/audit" not in each and not re.search(f"/({FAILED}|{RETRIED})\\b", each)]
    walked = [address.replace("worker", ROLE) for address in (*asked, *MORE)]
    of_jobs = [each for each in walked if "hello" in each or each in ("/jobs", *MORE)]
    assert {word for words in _told(api, browse, alice, of_jobs).values() for word in words} == {*WORDS}
    for who, anonymous in ((bob, "jobs"), (None, "all")):
        settings.ANONYMOUS_READ = anonymous
        found = _told(api, browse, who, walked)
        assert {each for each in found if not each.startswith(BY_ROLES)} == set()
        assert {word for words in found.values() for word in words} <= {ROLE}


def _told(
    api: Api, browse: Browse, who: User | None, addresses: list[str], of: tuple[str, ...] = WORDS
) -> dict[str, set[str]]:
    """The words that the answers of these addresses have, where they have any."""
    program, browser, found = api(who), browse(who), {}
    for address in addresses:
        answer = (program if by_api(address) else browser).get(address)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
        shown = body.decode(errors="replace")
        # What was asked for may be repeated.
        if words := {word for word in of if word in shown and word not in address}:
            found[address] = words
    return found


# --- names of others' jobs in what is told of one's own --------------------------------------------------------------

HIDDEN = ("qqowner", "qqbefore", "qqtitle", "qqalice")
_ROUTES = "/jobs/alice/", "/user/alice/", "alice~"


def _claim(cluster: Cluster, alice: User, bob: User, admin: User) -> None:
    """What bob's job has borrowed goes back to alice's."""
    for name in "ab":
        vc = VirtualCluster.objects.create(name=name, capacity=50, max_capacity=100)
        VcGrant.objects.bulk_create([VcGrant(vc=vc, username=each.username) for each in (alice, bob)])
    _submit(cluster, bob, "hello", gpus=4, virtualCluster="b")
    extras = {"dependsOn": [{"job": "qqbefore", "after": "end"}]}
    _submit(cluster, alice, "qqbefore", gpus=1, virtualCluster="a")
    _submit(cluster, alice, "qqowner", gpus=2, virtualCluster="a", extras=extras)
    cluster.finish(Job.objects.get(name="qqbefore"))


def _reservation(cluster: Cluster, alice: User, bob: User, admin: User) -> None:
    """Bob's job is a guest on what is reserved for alice's."""
    _submit(cluster, alice, "qqbefore", gpus=3)
    _submit(cluster, alice, "qqowner", gpus=4)
    _submit(cluster, bob, "hello", gpus=1, extras={"preemptible": True})
    cluster.finish(Job.objects.get(name="qqbefore"))


def _appointment(cluster: Cluster, alice: User, bob: User, admin: User) -> None:
    """Bob's job leaves a node that is alice's for an hour."""
    _submit(cluster, bob, "hello", gpus=1)
    User.objects.filter(pk=alice.pk).update(username="qqalice")
    when = {"begin": timezone.now(), "end": timezone.now() + timedelta(hours=1)}
    appointments.write(admin, {"title": "qqtitle", "nodes": ["n1"], "username": "qqalice", **when})


def _submit(cluster: Cluster, owner: User, name: str, gpus: int, **values: Any) -> None:
    cluster.owner = owner
    cluster.submit(name=name, roles=[{"gpuNumber": gpus}], **values)
    cluster.settle()


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("happens", [_claim, _reservation, _appointment])
def test_what_is_told_of_ones_own_job_does_not_name_those_of_others(
    api: Api,
    browse: Browse,
    settings: Any,
    tmp_path: Path,
    alice: User,
    bob: User,
    admin: User,
    happens: Any,
    is_old: bool,
) -> None:
    settings.HOME, settings.JOB_PRIVACY = tmp_path, "owner"
    cluster = Cluster(alice, Clock())
    cluster.add_node(gpus=4)
    happens(cluster, alice, bob, admin)
    for _ in range(4):
        cluster.settle()
    [evicted] = Event.objects.filter(job__username="bob", kind="job.evicted")
    name = {_claim: "alice/qqbefore", _reservation: "alice/qqowner"}.get(happens, "qqtitle")
    if is_old:
        _as_earlier_releases_wrote(evicted, name)
    # Why a job waits tells who holds what now, which everybody may know.
    asked = [each for each in addresses() if "hello" in each and any(part in each for part in _ROUTES)]
    asked = [each for each in asked if "/why" not in each]
    walked = [f"/timeline?task={evicted.pk}", "/nodes/n1", "/api/v1/nodes/n1"] + [
        each.replace("alice", "bob").replace("worker", "main") for each in asked
    ]
    assert "/jobs/bob/hello/events" in walked and "/api/v1/user/bob/jobs/hello/events" in walked
    found = _told(api, browse, bob, walked, HIDDEN)
    public = {"/nodes/n1": {"qqowner"}, "/api/v1/nodes/n1": {"qqowner"}}  # that it is there, and what it holds
    assert {each: words for each, words in found.items() if not words <= public.get(each, set())} == {}
    if happens is not _appointment:
        assert not _names(evicted, bob, name) and _names(evicted, admin, name)
        settings.JOB_PRIVACY = "open"
        assert _names(evicted, bob, name)


def _names(event: Event, who: User, name: str) -> bool:
    return name in as_read([Event.objects.get(pk=event.pk)], who)[0].reason


def _as_earlier_releases_wrote(evicted: Event, name: str) -> None:
    """With the other job's name, or what the appointment is about, in the sentence."""

    def named(text: str) -> str:
        kept = text.replace(OTHER, name, 1).replace(": kept from", ": kept for user qqalice from")
        return kept.replace(" by an appointment.", " by the appointment “qqtitle”.")

    Event.objects.filter(pk=evicted.pk).update(reason=named(evicted.reason))
    Event.objects.create(
        job=evicted.job, at=evicted.at, kind="job.released", reason=f"{named(evicted.reason)} What was kept ends."
    )
    for attempt in Attempt.objects.filter(job=evicted.job, exit_code=-7120):
        attempt.exit = {**attempt.exit, "reason": named(attempt.exit["reason"])}
        attempt.exit["exit"]["sentence"] = named(attempt.exit["exit"]["sentence"])
        attempt.save()
    stranger = "A container nobody asked for, qqowner-1, is on node n1. It is removed after a while."
    Event.objects.create(at=evicted.at, kind="container.stranger", node="n1", reason=stranger)


def test_who_made_room_is_named_to_those_who_may_read_that_jobs_details(
    settings: Any, tmp_path: Path, alice: User, bob: User, admin: User
) -> None:
    settings.HOME, settings.JOB_PRIVACY = tmp_path, "owner"
    cluster = Cluster(alice, Clock())
    cluster.add_node(gpus=4)
    _claim(cluster, alice, bob, admin)
    cluster.settle()
    [event] = Event.objects.filter(kind="job.reclaimed")
    says = {who.username: as_read([Event.objects.get(pk=event.pk)], who)[0].reason for who in (alice, admin)}
    assert says["alice"].startswith("Another job is evicted for this job") and "alice/qqbefore of VC a" in says["alice"]
    assert says["admin"].startswith("bob/hello is evicted for this job")


def test_the_number_of_another_s_job_is_for_those_who_may_read_that_job(
    api: Api, settings: Any, tmp_path: Path, alice: User, bob: User, admin: User
) -> None:
    settings.HOME, settings.JOB_PRIVACY = tmp_path, "owner"
    cluster = Cluster(alice, Clock())
    cluster.add_node(gpus=4)
    _claim(cluster, alice, bob, admin)
    cluster.settle()
    for address, key, owner in (("bob/jobs/hello", "owner", bob), ("alice/jobs/qqbefore", "victim", alice)):
        has = {}
        for who in (owner, admin):
            events = api(who).get(f"/api/v1/user/{address}/events").json()["events"]
            [event] = [each for each in events if each["kind"] in ("job.evicted", "job.reclaimed")]
            assert event["data"]["room"]
            has[who.username] = key in event["data"]
        assert has == {owner.username: False, admin.username: True}


def test_the_new_job_page_suggests_nothing_of_others(
    settings: Any, tmp_path: Path, browse: Browse, job: Job, alice: User, bob: User
) -> None:
    theirs = VirtualCluster.objects.create(name="qqtheirs", capacity=10, max_capacity=10)
    VcGrant.objects.create(vc=theirs, username="alice")
    Template.objects.create(user=alice, vc="qqtheirs", name="qqtemplate", config="{}", changed_at=timezone.now())
    Node.objects.update(images=[canonical("hub/qqimage")], images_at=timezone.now())
    config = {"jobName": "hello", "image": "bash", "dataDir": "/users/alice/qqdata", "codeDir": "/users/alice/qqcode"}
    role = {"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 3, "command": "true"}
    form = {"config": json.dumps({**config, "taskRoles": [role]}), "role": "0"}

    def suggested(who: User) -> set[str]:
        shown = [browse(who).get(each) for each in ("/submit", "/submit/images", "/notebooks")]
        shown += [browse(who).post(each, form) for each in ("/submit/check", "/submit/sizes")]
        assert [each.status_code for each in shown] == [200] * 5
        told = "".join(each.content.decode() for each in shown)
        return set(re.findall("qq(?:code|data|image|template|theirs)", told))  # which no token has by chance

    assert suggested(alice) == {"qqimage", "qqtheirs", "qqtemplate"}
    assert suggested(bob) == set()
    settings.JOB_PRIVACY = "open"
    assert suggested(bob) == {"qqimage"}
