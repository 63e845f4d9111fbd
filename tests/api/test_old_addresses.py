"""Addresses of the older portal's pages lead to the pages that do the same here (v1 contract, 8.1 and 8.4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from base.models import User
from tests.http import Client
from tests.submitting import submitted

Browse = Callable[[User | None], Client]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/index.html", "/"),
        ("/home.html", "/"),
        ("/dashboard.html", "/"),
        ("/download.html", "/"),
        ("/job-list.html", "/jobs"),
        ("/job-list.html?vcName=vision&status=Running&user=mira", "/jobs?vc=vision&state=Running&username=mira"),
        ("/view.html", "/jobs"),
        ("/view.html?vcName=vision", "/jobs?vc=vision"),
        ("/view.html?username=mira&jobName=mnist-a1", "/jobs/mira/mnist-a1"),
        ("/view.html?jobName=mnist-a1", "/jump?q=mnist-a1"),
        ("/job-detail.html?username=mira&jobName=mnist-a1", "/jobs/mira/mnist-a1"),
        ("/job-detail.html?username=a/../b&jobName=c%3Fd", "/jobs/a%2F..%2Fb/c%3Fd"),
        ("/job-detail.html", "/jobs"),
        ("/submit.html", "/submit"),
        ("/submit_v1.html", "/submit"),
        ("/submit.html?op=init", "/submit"),
        ("/submit.html?op=resubmit&type=job&user=mira&jobname=mnist-a1", "/submit?from=mira%2Fmnist-a1"),
        ("/plugin.html?op=resubmit&type=job&user=mira&jobname=x&index=0", "/submit?from=mira%2Fx"),
        ("/virtual-clusters.html", "/vcs"),
        ("/virtual-clusters.html?vcName=vision", "/vcs/vision"),
        ("/login.html", "/login"),
        ("/login.html?origin=%2Fview.html%3Fa%3D1", "/login?next=%2Fview.html%3Fa%3D1"),
        ("/login.html?origin=http%3A%2F%2Ftestserver%2Fjobs", "/login?next=http%3A%2F%2Ftestserver%2Fjobs"),
        ("/login.html?origin=http%3A%2F%2Fevil.example%2F", "/login"),
        ("/login.html?origin=%2F%2Fevil.example", "/login"),
        ("/login.html?origin=javascript%3Aalert(1)", "/login"),
        ("/user-view.html", "/users"),
        ("/register.html", "/users"),
        ("/batch-register.html", "/users"),
        ("/change-password.html", "/account"),
        ("/cluster-view/services.html", "/nodes"),
        ("/cluster-view/hardware.html", "/nodes"),
        ("/cluster-view/hardware/detail.html?instance=10.0.0.1:9100", "/nodes"),
        ("/cluster-view/k8s.html", "/nodes"),
        ("/docs.html", "/api/docs"),
        ("/webhdfs/explorer.html", "/files"),
    ],
)
def test_it_leads_from_the_old_page_to_the_new_one(db: None, old: str, new: str) -> None:
    answer = Client().get(old)
    assert (answer.status_code, answer["Location"]) == (302, new)


def test_it_knows_no_page_that_never_was(db: None) -> None:
    assert Client().get("/nothing.html").status_code == 404


def test_its_targets_are_there(browse: Browse, alice: User, admin: User) -> None:
    submitted(alice, "one")
    old = [
        *("/home.html", "/job-list.html", "/view.html?username=alice&jobName=one", "/view.html?jobName=one"),
        *("/submit.html?op=resubmit&type=job&user=alice&jobname=one", "/submit.html?op=resubmit&jobname=x"),
        *("/virtual-clusters.html", "/virtual-clusters.html?vcName=default", "/user-view.html"),
        *("/change-password.html", "/cluster-view/hardware.html", "/docs.html"),
    ]
    statuses = {path: browse(admin).get(path, follow=True).status_code for path in old}
    statuses.pop("/submit.html?op=resubmit&jobname=x")  # the admin has no such job
    assert set(statuses.values()) == {200}, statuses


def test_it_loads_the_config_to_submit_again(browse: Browse, alice: User) -> None:
    submitted(alice, "one")
    page = browse(alice).get("/submit.html?op=resubmit&type=job&jobname=one", follow=True)
    assert b"one-2" in page.content


def test_it_sends_who_signs_in_on_to_the_old_page(browse: Browse, alice: User) -> None:
    answer = browse(alice).get("/login.html?origin=%2Fjob-list.html", follow=True)
    assert [target for target, _ in answer.redirect_chain] == [
        "/login?next=%2Fjob-list.html",
        "/job-list.html",
        "/jobs",
    ]
