"""How far up a user may set the priority of a job: every door asks, and what is stored is never above it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from base.accounts import budget
from base.core.errors import BadRequest, LongshoreError
from base.models import AuditEvent, User
from clusters.models import VcGrant, VirtualCluster
from clusters.users import groups
from clusters.users import services as users
from clusters.vcs.grants import most_priority, priorities
from jobs import order, services
from jobs.admission import NotGiven
from jobs.models import Job
from jobs.rewind.services import reopen
from jobs.submitting import sweeps
from jobs.submitting.dry_run import check_config
from jobs.waiting.queue import forget, turns_of
from jobs.waiting.why import offered
from tests.builders import make_job, make_node
from tests.cluster import Cluster
from tests.helpers import examples
from tests.http import ApiClient, Browser
from tests.submitting import config, config_text, submitted

Api = Callable[[User | None], ApiClient]
pytestmark = pytest.mark.django_db
HIGH = {"priority": 1}


@pytest.fixture
def nlp(alice: User) -> VirtualCluster:
    made = VirtualCluster.objects.create(name="nlp", capacity=50, max_capacity=100, user_priority=20)
    VcGrant.objects.create(vc=made, username="alice")
    return made


def grant(vc: str, priority: int | None, username: str = "alice") -> None:
    row = VirtualCluster.objects.get(name=vc)
    VcGrant.objects.update_or_create(vc=row, username=username, defaults={"priority": priority})


def sweep(name: str, jobs: int, **extras: Any) -> str:
    return config_text(name, extras={"sweep": {"grid": {"n": f"1..{jobs}"}}, "n": "$$n$$", **extras})


def test_it_goes_by_the_grant_or_else_the_virtual_cluster(alice: User, admin: User, nlp: VirtualCluster) -> None:
    VirtualCluster.objects.create(name="other", user_priority=70)
    assert priorities("alice", is_admin=False) == {"default": 0, "nlp": 20}
    grant("nlp", 50)
    grant("default", 5)
    assert priorities("alice", is_admin=False) == {"default": 5, "nlp": 50}
    grant("nlp", 0)
    assert priorities("alice", is_admin=False)["nlp"] == 0, "a grant may also take away"
    assert priorities("admin", is_admin=True) == {"default": 100, "nlp": 100, "other": 100}
    assert most_priority("alice", "other", is_admin=False) == 0, "nothing where they may not submit"
    VirtualCluster.objects.filter(name="default").delete()
    assert priorities("alice", is_admin=False)["default"] == 0, "default is there also without a row"


DOORS: dict[str, Callable[[ApiClient], Any]] = {
    "POST": lambda api: api.post("/api/v1/jobs", config(extras=HIGH), format="json"),
    "POST of a user": lambda api: api.post("/api/v1/user/alice/jobs", config(extras=HIGH), format="json"),
    "PUT": lambda api: api.put("/api/v1/user/alice/jobs/hello", config(extras=HIGH), format="json"),
    "PUT without a user": lambda api: api.put("/rest-server/api/v1/jobs/hello", config(extras=HIGH), format="json"),
    "v2": lambda api: api.post("/api/v2/jobs", config(extras=HIGH), format="json"),
    "the first release": lambda api: api.put("/api/job/hello", config(extras=HIGH), format="json"),
    "a sweep": lambda api: api.post("/api/v1/sweeps", sweep("hello", 2, **HIGH), content_type="text/plain"),
    "one of a sweep": lambda api: api.post(
        "/api/v1/sweeps",
        config_text(extras={"priority": "$$p$$", "sweep": {"grid": {"p": [1, 0]}}}),
        content_type="text/plain",
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_nobody_gave(api: Api, alice: User, admin: User, door: str) -> None:
    answer = DOORS[door](api(alice))
    assert answer.status_code in (403, 500) and "default you may set a priority of 0 at most" in answer.content.decode()
    assert not Job.objects.exists()
    grant("default", 1)
    assert DOORS[door](api(alice)).status_code < 300
    assert max(Job.objects.values_list("priority", flat=True)) == 1


@pytest.mark.parametrize("door", sorted(DOORS.keys() - {"POST of a user", "PUT"}))
def test_an_admin_may_by_every_door(api: Api, admin: User, door: str) -> None:
    assert DOORS[door](api(admin)).status_code < 300


def test_pages_and_validate_point_at_the_line_and_mend_it(api: Api, alice: User, admin: User) -> None:
    text = json.dumps(config(extras={"priority": 100}), indent=1)
    [problem] = check_config(text, alice).problems
    assert problem.path == "/extras/priority" and '"priority"' in text.splitlines()[problem.line - 1]
    assert problem.mend and (problem.mend.kind, problem.mend.path, problem.mend.value) == ("set", problem.path, 0)
    said = api(alice).post("/api/v1/jobs/validate", text, content_type="application/json").json()
    assert [each["path"] for each in said["errors"]] == ["/extras/priority"] and not said["valid"]
    assert not check_config(text, admin).problems
    client = Browser()
    client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
    page = client.post("/submit", {"config": text})
    assert page.status_code == 403 and "you may set a priority of 0 at most" in page.content.decode()
    assert "Set to 0" in client.post("/submit", {"config": text, "action": "check"}).content.decode()
    [problem] = sweeps.check(sweep("s", 2, priority=9), alice).problems
    assert problem.path == "/extras/priority" and problem.mend and problem.mend.value == 0
    assert not Job.objects.exists()


def test_down_is_free_and_up_goes_as_far_as_it_was_given(alice: User, nlp: VirtualCluster) -> None:
    for at, (vc, priority) in enumerate([("default", -100), ("default", 0), ("nlp", 20)]):
        assert submitted(alice, f"j{at}", virtualCluster=vc, extras={"priority": priority}).priority == priority
    with pytest.raises(NotGiven, match="In virtual cluster nlp you may set a priority of 20 at most"):
        submitted(alice, "more", virtualCluster="nlp", extras={"priority": 21})


def test_one_that_ended_is_sent_again_as_any_other(alice: User) -> None:
    text = config_text("old", extras={"priority": 100})
    old = make_job("alice", "old", state="FAILED", priority=100)
    Job.objects.filter(pk=old.pk).update(config=text)
    with pytest.raises(NotGiven):
        services.again(alice, Job.objects.get(pk=old.pk), {"gpuNumber": 1})
    grant("default", 100)
    assert services.again(alice, Job.objects.get(pk=old.pk), {"gpuNumber": 1}).priority == 100


def test_what_is_opened_again_has_no_priority_of_its_own(cluster: Cluster, alice: User, settings: Any) -> None:
    settings.REWIND_HOURS = 1
    cluster.add_node()
    grant("default", 9)
    job = cluster.submit(name="fails", extras={"priority": 9})
    cluster.settle()
    cluster.finish(job, 1)
    cluster.settle()
    assert reopen(alice, cluster.job(job)).priority == 0


# --- in the place of a waiting job -----------------------------------------------------------------------------------


@pytest.mark.parametrize("config_says", [0, 80, -3])
@pytest.mark.parametrize("has", [50, 0, -7])
def test_a_change_keeps_the_priority_whatever_the_config_says(alice: User, has: int, config_says: int) -> None:
    grant("default", 100)
    job = submitted(alice, gpus=4, extras={"priority": config_says})
    grant("default", None)
    Job.objects.filter(pk=job.pk).update(priority=has)
    job.refresh_from_db()
    assert services.change(alice, job, {"gpuNumber": 2}).priority == has


def test_a_change_that_meets_an_admins_does_not_undo_it(alice: User, admin: User) -> None:
    seen = submitted(alice, gpus=4)
    Job.objects.filter(pk=seen.pk).update(priority=50)
    seen.refresh_from_db()
    order.set_priority(admin, seen, -9)
    assert services.change(alice, seen, {"gpuNumber": 2}).priority == -9


@pytest.mark.parametrize(("has", "gets"), [(50, 20), (20, 20), (0, 0), (-7, -7)])
def test_in_another_virtual_cluster_it_is_no_higher_than_the_user_may(
    alice: User, nlp: VirtualCluster, has: int, gets: int
) -> None:
    job = submitted(alice)
    Job.objects.filter(pk=job.pk).update(priority=has)
    job.refresh_from_db()
    assert services.change(alice, job, {"virtualCluster": "nlp"}).priority == gets


def test_another_virtual_cluster_is_offered_where_it_starts_with_that(alice: User, bob: User) -> None:
    VirtualCluster.objects.filter(name="default").update(status="STOPPED")
    vc = VirtualCluster.objects.create(name="theirs", capacity=50, max_capacity=100)
    VcGrant.objects.create(vc=vc, username="alice")
    make_node("n1", gpus=4)
    make_job("bob", "first", vc="theirs", gpus=4)
    job = make_job("alice", "mine", gpus=4, priority=50)
    assert {"virtualCluster": "theirs"} not in [one.change for one in offered(job)], "there it is behind bob's"
    grant("theirs", 50)
    forget()
    assert {"virtualCluster": "theirs"} in [one.change for one in offered(job)]


# --- while it waits --------------------------------------------------------------------------------------------------


def test_an_owner_raises_it_as_far_as_they_may_and_an_admin_to_the_top(
    alice: User, admin: User, nlp: VirtualCluster
) -> None:
    job = make_job("alice", "mine", vc="nlp", priority=-5)
    assert order.set_priority(alice, job, 20)
    with pytest.raises(NotGiven, match="20 at most"):
        order.set_priority(alice, job, 21)
    assert order.set_priority(admin, job, 100) and order.set_priority(alice, job, 60), "lower is free"
    with pytest.raises(NotGiven):
        order.set_priority(alice, job, 61)


def test_who_loses_the_right_keeps_what_waits(alice: User, admin: User, nlp: VirtualCluster) -> None:
    job = submitted(alice, virtualCluster="nlp", extras={"priority": 20})
    VirtualCluster.objects.update(user_priority=0)
    users.set_grants(admin, "alice", [])
    job.refresh_from_db()
    assert job.priority == 20
    assert order.set_priority(admin, job, 3)


# --- who gives it ----------------------------------------------------------------------------------------------------


def test_a_grant_keeps_its_priority_whichever_way_the_others_are_set(
    admin: User, alice: User, nlp: VirtualCluster
) -> None:
    VirtualCluster.objects.create(name="vision")
    assert users.set_grants(admin, "alice", ["nlp"], {"nlp": 40, "default": 3}) == ("default", "nlp")
    assert AuditEvent.objects.latest("id").data["priorities"] == {"nlp": 40, "default": 3}
    users.set_grants(admin, "alice", ["nlp", "vision"])
    users.merge_extension(admin, "alice", {"virtualCluster": ["nlp"]})
    groups.add_member(admin, "alice", "vision")
    groups.set_grouplist(admin, "alice", ["default", "nlp"])
    assert priorities("alice", is_admin=False) == {"default": 3, "nlp": 40}
    users.set_grants(admin, "alice", ["nlp"], {"nlp": None})
    assert priorities("alice", is_admin=False) == {"default": 3, "nlp": 20}
    for wrong in ({"vision": 1}, {"nlp": 101}, {"nlp": -1}):
        with pytest.raises(BadRequest):
            users.set_grants(admin, "alice", ["nlp"], wrong)


# --- whatever is sent ------------------------------------------------------------------------------------------------

NUMBERS = st.integers(-101, 101) | st.sampled_from([0, 1, 20, 21, 100])
PRIORITIES = (
    NUMBERS | NUMBERS.map(str) | NUMBERS.map(float) | st.sampled_from([None, True, [], "1e2", "0x64", " 9 ", "٣"])
)
EXTRAS = st.dictionaries(st.sampled_from(["priority", "Priority", "priority ", "note"]), PRIORITIES, max_size=3)


@limits(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    extras=EXTRAS,
    twice=st.none() | NUMBERS,
    as_text=st.booleans(),
    vc=st.sampled_from(["default", "nlp", ""]),
    own=st.none() | st.integers(0, 100),
)
def test_no_config_stores_more_than_its_user_may(
    alice: User, nlp: VirtualCluster, extras: dict[str, Any], twice: int | None, as_text: bool, vc: str, own: int | None
) -> None:
    grant("nlp", own)
    text = config_text(virtualCluster=vc, extras=json.dumps(extras) if as_text else extras)
    if twice is not None and not as_text:
        text = text.replace('"extras": {', f'"extras": {{"priority": {twice}{", " if extras else ""}', 1)
    try:
        for job in (services.submit(alice, text), *sweeps.submit(alice, text.replace("hello", "swept")).jobs.all()):
            assert job.priority <= most_priority("alice", job.vc, is_admin=False)
    except LongshoreError:
        pass
    for job in Job.objects.all():
        assert job.priority <= most_priority("alice", job.vc, is_admin=False)
        moved = services.change(alice, job, {"virtualCluster": "default"})
        assert moved.priority == min(job.priority, 0)
    Job.objects.all().delete()


def test_two_thousand_jobs_at_the_top_leave_a_colleague_where_they_were(alice: User, bob: User) -> None:
    for at in range(8):
        make_job("carol", f"c{at}", age=100)
    job = make_job("bob", "mine", age=50)
    for at in range(10):
        with pytest.raises(NotGiven):
            sweeps.submit(alice, sweep(f"all{at}", 200, priority=100))
        budget.forget()  # as if a few seconds had passed: so many at once are refused
        sweeps.submit(alice, sweep(f"all{at}", 200, priority=0))
    assert Job.objects.filter(username="alice").count() == 2000
    turn = turns_of([job.pk])[job.pk]
    print(f"2,000 jobs at the most that their user may set: position {turn.position}, as before")
    assert turn.position == 9
