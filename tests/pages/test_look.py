"""Every page at two widths and in both colours: no sideways scroll, no breach of the CSP, nothing axe objects to. Other
files look in this way at what opens on a page, at what comes of typing there, and at what an engine has to be for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from base.accounts import tokens
from base.accounts.providers import state
from base.accounts.providers.config import Provider
from base.models import AuditEvent, Identity, SignInRule, User
from clusters.engines.runtime import ContainerStatus, Phase
from clusters.models import Node, VirtualCluster
from jobs.checking import run
from jobs.models import Attempt, Dependency, Job, Task
from jobs.planning import exits
from jobs.submitting import drafts
from jobs.what_if.answer import what_if
from portal.files import queries
from tests.builders import fail_again, make_job, make_node
from tests.helpers import LIMIT
from tests.history import HOUR, held
from tests.oidc_provider import OidcProvider
from tests.pages.conftest import PHONE, SCREEN, Tab
from tests.pages.test_diagnosis import FOUND
from tests.pages.test_drafts import job as draft
from tests.pages.test_files import HOME, PNG, put
from tests.pages.test_forecasts import some_weeks
from tests.pages.test_replay import NOW, a_day, played
from tests.pages.test_usage import a_month

pytestmark = pytest.mark.browser
LONG = "x" * 60 + "-imagenet-lr0.001-bs256" * 4
FEWER = json.dumps({"gpuNumber": 4})
PAGES = [
    "/",
    "/jobs",
    "/jobs?state=failed&keyword=zzz",
    "/jobs/alice/waits",
    "/jobs/alice/waits/why",
    f"/jobs/alice/waits/change?change={FEWER}",
    "/jobs/alice/behind",
    "/jobs/alice/after",
    "/jobs/alice/kept",
    "/jobs/alice/mistyped",
    "/jobs/alice/mistyped/attempts",
    f"/jobs/alice/{LONG}",
    "/jobs/alice/runs",
    "/jobs/alice/failed",
    "/jobs/alice/failed/attempts",
    "/jobs/alice/failed/events",
    "/jobs/alice/failed/config",
    "/jobs/alice/runs/metrics",
    "/cluster/metrics",
    "/nodes/gpu-01/metrics",
    "/jobs/alice/runs/stop",
    "/notebooks",
    "/submit?template=two-roles",
    "/submit",
    "/nodes",
    "/nodes/gpu-01",
    "/nodes/gpu-02",
    "/nodes/gpu-04-of-a-rather-long-name-in-rack-12",
    "/account",
    f"/account/command?port=50000&challenge={'a' * 64}",
    "/guides",
    "/guides/use/ending",
]
ADMIN_PAGES = (
    "/?as=cluster",
    "/vcs",
    "/vcs/nlp",
    "/vcs/nlp/delete",
    "/users",
    "/users/alice",
    "/users/ci/tokens",
    "/account/tokens",
    "/add-node",
    "/add-cluster",
    "/nodes/gpu-01/edit",
    "/nodes/gpu-01/drain",
    "/nodes/gpu-03/drain",
    "/nodes/gpu-01/remove",
    "/check-cluster",
    "/jobs/alice/after/place",
    "/hosts",
    "/admin/sign-in",
    "/admin/sign-in/rules/new",
)


def by_turns(*paths: str) -> Iterator[tuple[str, int]]:
    """Each with the width at which it is looked at in the dark, so that what pages share is seen in every way."""
    return zip(paths, itertools.cycle((PHONE, SCREEN)), strict=False)


def test_it_is_accessible_and_fits_and_code_has_one_font_all_else_the_other_and_none_is_loaded(
    tab: Callable[..., Tab], alice: User
) -> None:
    a_cluster()
    drafts.keep(alice, draft("older"))
    shown = tab(alice)
    for path, dark in by_turns(*PAGES):
        shown.check_everywhere(path, dark=dark)
        assert shown.page.evaluate(_FONTS) == {"wrong": [], "loaded": 0}, path
    assert shown.open("/jobs/alice/runs/ssh").evaluate(_FONTS) == {"wrong": [], "loaded": 0}


def test_what_was_added_to_a_config_fits_beside_a_long_name_of_a_role(tab: Callable[..., Tab], alice: User) -> None:
    make_job("alice", "long", config={"taskRoles": [{"name": LONG.replace("-", "_"), "command": "true"}]})
    tab(alice).check_everywhere("/jobs/alice/long/config")


def test_it_is_accessible_to_admins(tab: Callable[..., Tab], admin: User, alice: User) -> None:
    a_cluster()
    VirtualCluster.objects.create(name="nlp", capacity=20, max_capacity=40)
    tokens.issue(admin, 3600, "laptop", scopes="jobs:read files:read")
    tokens.issue(admin, 3600, client="curl from 10.0.0.1")
    User.objects.create_user("ci")
    User.objects.filter(username="ci").update(owner="alice")
    row = {"node": "gpu-04-of-a-rather-long-name-in-rack-12", "failed": {"gpu": "It has none."}}
    AuditEvent.objects.create(actor="admin", action=run.ENDED, data={"rows": [row], "nodes": 4, "works": 3})
    shown = tab(admin)
    for path, dark in by_turns(*ADMIN_PAGES):
        shown.check_everywhere(path, dark=dark)


def test_what_was_and_what_would_be_are_accessible(
    tab: Callable[..., Tab], browse: Callable[[User | None], Client], admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "__defaults__", (LIMIT,))  # a busy machine may take long to play the queues
    a_day()
    a_month()
    some_weeks()
    evicted = held(NOW - 8 * HOUR, NOW - HOUR, gpu_ids="3", username="bob", guest=True, outcome="EVICTED")
    held(NOW - 8 * HOUR, None, gpu_ids="", gpus=0, username="bob")
    make_job("alice", "runs", state="RUNNING", gpus=4, node=Node.objects.get())
    make_job("alice", "short", age=90)
    make_job("alice", LONG, gpus=2)
    changes = f"change=job:alice~{LONG}:priority:5&change=node:gpu-01:drain&change=node:n3:add:8"
    replay = played(browse(admin), vc="vision", gpus="1")
    shown = tab(admin)
    for path, dark in by_turns(
        *("/timeline", f"/timeline?task={evicted.pk}", "/timeline?view=table"),
        *("/usage?by=user", "/usage?by=day"),
        *("/replay", replay),
        *("/policy", f"/policy?{changes}"),
        f"/jobs/alice/{LONG}/place",
        "/forecasts",
    ):
        shown.check_everywhere(path, dark=dark)


def test_files_are_accessible(
    tab: Callable[..., Tab], alice: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HOME = tmp_path
    monkeypatch.setattr(queries, "ROWS", 4)
    long = "a-rather-long-name-of-a-checkpoint-file-epoch-0001-step-120000.ckpt"
    for name in ("metrics.jsonl", long, "sub/x", "b.tar", "config.py", ".bashrc"):
        put(f"/user/alice/{name}", b'{"iter": 50, "loss": 1.4417}\n' * 30)
    put("/user/alice/p.png", PNG)
    put("/data/x")
    shown = tab(alice)
    for path, dark in by_turns(
        "/files",
        f"{HOME}?sort=-size&page=2&hidden=1",
        f"{HOME}?q=zzz",
        f"{HOME}/metrics.jsonl",
        f"{HOME}/p.png",
        f"{HOME}/b.tar?do=rename",
        f"{HOME}/sub?do=delete",
        "/files/data",
    ):
        shown.check_everywhere(path, dark=dark)


def test_signing_in_by_a_provider_is_accessible(tab: Callable[..., Tab], admin: User, settings: Any) -> None:
    settings.SIGN_IN = two_providers()
    for place, group in enumerate(("cluster-admins", LONG, ""), 1):
        role = "admin" if place == 1 else ""
        SignInRule.objects.create(place=place, provider="lab", group=group, vcs=["default"], priority=50, role=role)
    known = {"issuer": settings.SIGN_IN["lab"].issuer, "seen_at": timezone.now(), "groups": ["vision", LONG]}
    Identity.objects.create(user=admin, provider="lab", subject="1", **known)
    shown = tab(admin)
    for path, dark in by_turns(
        "/admin/sign-in?provider=lab&user=admin",
        f"/admin/sign-in/rules/{SignInRule.objects.get(place=2).pk}",
        "/account",
    ):
        shown.check_everywhere(path, dark=dark)


def test_it_is_accessible_to_guests(tab: Callable[..., Tab], alice: User, settings: Any) -> None:
    settings.SIGN_IN = two_providers()
    a_cluster()
    shown = tab()
    for path, dark in by_turns("/login", "/", "/wall", "/jobs", "/vcs/default", "/jobs/alice/failed/config"):
        shown.check_everywhere(path, dark=dark)
    shown.open("/jobs/alice/wai")
    shown.faults.clear()  # the browser tells of every 404
    shown.check_here("an address that does not exist")


# Every element with words of its own beside the stack it should have: --tblr-font-* of longshore.css.
_FONTS = """() => {
  const stack = (name) => {
    const probe = document.createElement("span");
    probe.style.fontFamily = `var(--tblr-font-${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).fontFamily;
    probe.remove();
    return found;
  };
  const mono = stack("monospace"), sans = stack("sans-serif"), wrong = [];
  const coded = "pre, code, kbd, #config, .ls-mono, .ls-edit, .ls-log, .ls-editor";
  for (const node of document.querySelectorAll("body *")) {
    const words = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!words && !node.matches("input, select, textarea")) continue;
    const wanted = node.closest(coded) && !node.closest(".why") ? mono : sans;
    if (getComputedStyle(node).fontFamily !== wanted) wrong.push(node.outerHTML.slice(0, 100));
  }
  return { wrong, loaded: document.fonts.size };
}"""


def two_providers() -> dict[str, Provider]:
    """One of them does not answer."""
    lab = OidcProvider("https://id.lab.example/realms/lab").settings(title="Lab account (Keycloak)")
    state._of(lab["lab"]).fails = "since 13:58: its certificate is not believed"
    return lab | OidcProvider(f"https://{LONG[:60]}.example").settings("university", title="University of Delft")


def a_cluster() -> None:
    node = make_node("gpu-01", gpus=8)
    make_node("gpu-02", gpus=4, health="unreachable", health_reason="It does not answer.")
    make_node("gpu-03", gpus=4, status="draining")
    make_job("alice", "waits", tasks=2, gpus=9)
    make_job("alice", "runs", state="RUNNING", tasks=4, gpus=1, node=node)
    starting = make_job("bob", "starts", state="RUNNING", task_state="STARTING")
    starting.tasks.update(node="gpu-01", address="10.0.0.1", progress="pulling 3.1 of 8.2 GB")
    status = ContainerStatus("c", "c", Phase.EXITED, {}, exit_code=137, oom_killed=True)
    out_of_memory = exits.classify(status, 1024, label="worker-1")
    failed = make_job("alice", "failed", state="FAILED", tasks=3, node=node, exit=out_of_memory, failed_task=1)
    Attempt.objects.filter(job=failed).update(diagnosis=FOUND)
    make_job("alice", "stopped", state="STOPPED", stopped_by="alice")
    make_job("alice", "done", state="SUCCEEDED")
    far = make_node("gpu-04-of-a-rather-long-name-in-rack-12", gpus=8, address="node-04.cluster.example.org")
    make_job("alice", LONG, state="RUNNING", gpus=1, node=far, vc=LONG[:60], config={"image": f"lab.example/{LONG}:1"})
    make_job(LONG[:60], LONG, tasks=200, gpus=4)
    exit_ = exits.from_fault("registry_unreachable", f"The registry {LONG} could not be reached.", permanent=False)
    fail_again(make_job("alice", "mistyped"), exit_, 4)
    make_node("cpu-01")
    make_job("alice", "large", tasks=2, gpus=8)  # for which two nodes are kept
    make_job("alice", "behind", gpus=8)
    after = make_job(
        "alice",
        "after",
        config={"extras": {"dependsOn": ["waits", {"job": "gone", "after": "end"}], "maxRunSeconds": 90000}},
        awaits=1,
        priority=-7,
    )
    Dependency.objects.create(job=after, on=Job.objects.get(name="waits"), on_name="waits")
    kept = make_job("alice", "kept", state="RUNNING", tasks=2, gpus=1, node=node)
    Job.objects.filter(pk=kept.pk).update(spec={**kept.spec, "jobEnvs": {"isDebug": True}})
    Task.objects.filter(job=kept, index=0).update(held_at=timezone.now() - timedelta(minutes=5))
