"""Every page at two widths and in both colours: no sideways scroll, no breach of the CSP, nothing axe objects to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from base.accounts import tokens
from base.models import AuditEvent, User
from clusters.engines.runtime import ContainerStatus, Phase
from clusters.models import VirtualCluster
from jobs.checking import run
from jobs.models import Attempt
from jobs.planning import exits
from tests.builders import fail_again, make_job, make_node
from tests.pages.conftest import Tab
from tests.pages.test_diagnosis import FOUND

pytestmark = pytest.mark.browser
LONG = "x" * 60 + "-imagenet-lr0.001-bs256" * 4
PAGES = [
    "/",
    "/jobs",
    "/jobs?state=failed&keyword=zzz",
    "/jobs/alice/waits",
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
    "/submit?template=two-roles",
    "/nodes",
    "/nodes/gpu-01",
    "/nodes/gpu-02",
    "/nodes/gpu-04-of-a-rather-long-name-in-rack-12",
    "/account",
]


NODE_PAGES = (
    "/add-node",
    "/add-cluster",
    "/nodes/gpu-01/edit",
    "/nodes/gpu-01/drain",
    "/nodes/gpu-03/drain",
    "/nodes/gpu-01/remove",
    "/check-cluster",
    "/hosts",
)


def test_it_is_accessible_and_fits_and_code_has_one_font_all_else_the_other_and_none_is_loaded(
    tab: Callable[..., Tab], alice: User
) -> None:
    a_cluster()
    shown = tab(alice)
    for path in PAGES:
        shown.check_everywhere(path)
        assert shown.page.evaluate(_FONTS) == {"wrong": [], "loaded": 0}, path
    assert shown.open("/jobs/alice/runs/ssh").evaluate(_FONTS) == {"wrong": [], "loaded": 0}


def test_it_is_accessible_to_admins(tab: Callable[..., Tab], admin: User, alice: User) -> None:
    a_cluster()
    VirtualCluster.objects.create(name="nlp", capacity=20, max_capacity=40)
    tokens.issue(admin, 3600, "laptop")
    row = {"node": "gpu-04-of-a-rather-long-name-in-rack-12", "failed": {"gpu": "It has none."}}
    AuditEvent.objects.create(actor="admin", action=run.ENDED, data={"rows": [row], "nodes": 4, "works": 3})
    shown = tab(admin)
    for path in ("/vcs", "/vcs/nlp", "/vcs/nlp/delete", "/users", "/users/alice", "/account/tokens", *NODE_PAGES):
        shown.check_everywhere(path)


def test_it_is_accessible_to_guests(tab: Callable[..., Tab], alice: User) -> None:
    a_cluster()
    shown = tab()
    for path in ("/login", "/", "/wall", "/jobs", "/vcs/default", "/jobs/alice/failed/config"):
        shown.check_everywhere(path)
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
