"""Virtual clusters: the list, the effect before the click, and what only admins may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from base.models import AuditEvent, User
from clusters.models import VcGrant, VirtualCluster
from jobs.models import PastUse
from tests.builders import make_job, make_node
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]


def make_vc(name: str = "nlp", capacity: float = 30, most: float = 50, **more: object) -> VirtualCluster:
    VirtualCluster.objects.update_or_create(name="default", defaults={"capacity": 100 - capacity, "max_capacity": 100})
    return VirtualCluster.objects.create(name=name, capacity=capacity, max_capacity=most, **more)


def text(client: Client, url: str = "/vcs") -> str:
    return client.get(url).content.decode()


def test_it_lists_what_each_has_and_uses(browse: Browse) -> None:
    node = make_node(gpus=10)
    vc = make_vc()
    VcGrant.objects.create(vc=vc, username="alice")
    make_job("alice", state="RUNNING", gpus=4, node=node, vc="nlp")
    make_job("alice", vc="nlp")
    client = browse(None)
    default, nlp = client.get("/vcs").context["lines"]
    assert (default.guaranteed_cell, default.people) == (("7", "70 %"), "anyone")
    assert (nlp.used_cell, nlp.guaranteed_cell, nlp.most_cell) == (("4", "1 above"), ("3", "30 %"), ("5", "50 %"))
    assert (nlp.people, nlp.view.jobs.running, nlp.view.jobs.waiting) == ("1 person", 1, 1)
    assert "nlp: 40 % used, 30 % guaranteed, at most 50 %" in text(client)


def test_it_says_whom_it_made_the_manager(browse: Browse, admin: User, alice: User) -> None:
    make_vc()
    client = browse(admin)
    for fields, says in (({"manages": "1"}, "alice manages nlp."), ({}, "alice may use nlp.")):
        client.post("/vcs/nlp/users", {"username": "alice", "action": "give", **fields})
        assert says in text(client, "/vcs/nlp")


def test_it_shows_percent_where_there_are_no_gpus(browse: Browse) -> None:
    make_node(cpus=8)
    assert browse(None).get("/vcs").context["lines"][0].guaranteed_cell == ("100 %", "")


def test_it_shows_actions_and_names_to_admins_only(browse: Browse, admin: User, alice: User) -> None:
    VcGrant.objects.create(vc=make_vc(), username="carol")
    assert "Add virtual cluster" in text(browse(admin))
    assert "Others: carol." in text(browse(admin), "/vcs/nlp")
    for client in (browse(alice), browse(None)):
        shown = text(client) + text(client, "/vcs/nlp")
        assert "Add virtual cluster" not in shown
        assert "carol" not in shown
        assert "/vcs/nlp/delete" not in shown


@pytest.mark.parametrize("path", ["/vcs", "/vcs/nlp", "/vcs/nlp/status", "/vcs/nlp/delete"])
def test_it_lets_only_admins_change_anything(browse: Browse, alice: User, path: str) -> None:
    make_vc()
    form = {"name": "other", "capacity": "10", "to": "stopped"}
    assert browse(alice).post(path, form).status_code == 403
    assert browse(None).post(path, form).status_code in (302, 401)
    assert list(VirtualCluster.objects.values_list("name", "capacity", "status").order_by("name")) == [
        ("default", 70, "RUNNING"),
        ("nlp", 30, "RUNNING"),
    ]


def test_it_protects_default(browse: Browse, admin: User) -> None:
    client = browse(admin)
    for path in ("/vcs/default", "/vcs/default/status", "/vcs/default/delete"):
        assert client.post(path, {"capacity": "10", "to": "stopped"}).status_code == 403
    assert "/vcs/default/delete" not in text(client)


@pytest.mark.parametrize(
    ("capacity", "maximum", "said"),
    [
        ("40", "50", "nlp: guarantee 30 % → 40 %, 3 → 4 GPUs. default shrinks from 70 % to 60 %."),
        ("10", "60", "nlp: guarantee 30 % → 10 %, 3 → 1 GPU. nlp: at most 50 % → 60 %, 5 → 6 GPUs. default grows"),
        ("30", "80", "nlp: at most 50 % → 80 %, 5 → 8 GPUs. default keeps its 70 %."),
        ("30", "50", "Nothing changes"),
        ("33.5", "50", "guarantee 30 % → 33.5 %, 3 → 3 GPUs. default shrinks from 70 % to 66.5 %."),
    ],
)
def test_it_says_the_effect_and_changes_nothing(
    browse: Browse, admin: User, capacity: str, maximum: str, said: str
) -> None:
    make_node(gpus=10)
    make_vc()
    form = {"capacity": capacity, "maximum": maximum, "action": "check"}
    answer = browse(admin).post("/vcs/nlp", form)
    assert said in " ".join(answer.context["form"].effect)
    assert VirtualCluster.objects.get(name="nlp").capacity == 30
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    ("capacity", "maximum", "field", "said"),
    [
        ("101", "", "capacity", "from 0 to 100"),
        ("-1", "", "capacity", "from 0 to 100"),
        ("", "", "capacity", "from 0 to 100"),
        ("²", "", "capacity", "from 0 to 100"),
        ("1e1", "", "capacity", "from 0 to 100"),
        ("40", "30", "maximum", "less than what is guaranteed"),
        ("90", "95", "capacity", "default has only 30 % to give"),
    ],
)
def test_it_says_at_the_field_what_is_wrong_and_keeps_what_was_typed(
    browse: Browse, admin: User, capacity: str, maximum: str, field: str, said: str
) -> None:
    make_vc()
    make_vc("vision", 40, 40)
    form = {"capacity": capacity, "maximum": maximum}
    answer = browse(admin).post("/vcs/nlp", form)
    assert answer.status_code == 400
    assert said in answer.context["form"].errors[field]
    assert f'name="capacity" value="{capacity}"' in answer.content.decode()
    assert browse(admin).post("/vcs/nlp", {**form, "action": "check"}).status_code == 200
    assert VirtualCluster.objects.get(name="nlp").capacity == 30


def test_it_resizes_and_gives_default_the_rest(browse: Browse, admin: User) -> None:
    make_vc()
    answer = browse(admin).post("/vcs/nlp", {"capacity": "45", "maximum": ""}, follow=True)
    assert "nlp was changed: 45 % guaranteed, 45 % at most." in answer.content.decode()
    assert dict(VirtualCluster.objects.values_list("name", "capacity")) == {"default": 55, "nlp": 45}
    assert AuditEvent.objects.get().ip == "127.0.0.1"


def test_it_adds_one_and_refuses_a_name_that_is_taken(browse: Browse, admin: User) -> None:
    client = browse(admin)
    said = " ".join(client.post("/vcs", {"name": "new", "capacity": "20", "action": "check"}).context["add"].effect)
    assert said.startswith("new is new, with 20 % guaranteed and 20 % at most. default shrinks from 100 % to 80 %.")
    assert client.post("/vcs", {"name": "new", "capacity": "20"}).headers["Location"] == "/vcs/new"
    for name in ("new", "default", "a-b", "", "x" * 65):
        answer = client.post("/vcs", {"name": name, "capacity": "10"})
        assert answer.status_code == 400, name
        assert answer.context["add"].errors["name"]
    assert VirtualCluster.objects.count() == 2


def test_it_stops_and_activates_with_the_effect_said_first(browse: Browse, admin: User) -> None:
    make_vc()
    make_job("alice", state="RUNNING", vc="nlp")
    make_job("alice", vc="nlp")
    client = browse(admin)
    question = text(client, "/vcs/nlp/status")
    assert "1 running job goes on and 1 waiting job stays queued." in question
    client.post("/vcs/nlp/status", {"to": "stopped"})
    assert VirtualCluster.objects.get(name="nlp").status == "STOPPED"
    assert "Activate nlp?" in text(client, "/vcs/nlp/status")
    client.post("/vcs/nlp/status", {"to": "running"})
    assert VirtualCluster.objects.get(name="nlp").status == "RUNNING"
    assert client.post("/vcs/nlp/status", {"to": "odd"}).status_code == 400


def test_it_deletes_only_what_has_no_live_jobs(browse: Browse, admin: User) -> None:
    VcGrant.objects.create(vc=make_vc(), username="carol")
    job = make_job("carol", vc="nlp")
    client = browse(admin)
    assert '<a href="/jobs?vc=nlp">1 job waits or runs</a> in it.' in text(client, "/vcs/nlp/delete")
    assert client.post("/vcs/nlp/delete").status_code == 403
    job.state = "STOPPED"
    job.save()
    question = text(client, "/vcs/nlp/delete")
    assert "default grows from 70 % to 100 %. 1 person can no longer submit to it." in question
    assert client.post("/vcs/nlp/delete").headers["Location"] == "/vcs"
    assert list(VirtualCluster.objects.values_list("name", "capacity")) == [("default", 100)]


def test_an_unknown_one_is_not_found(browse: Browse, admin: User) -> None:
    for path in ("/vcs/nothing", "/vcs/nothing/delete", "/vcs/nothing/status", "/vcs/%3Cscript%3E"):
        assert browse(admin).get(path).status_code == 404, path


def test_guests_are_sent_to_sign_in_where_nothing_is_open(browse: Browse, settings: object) -> None:
    settings.ANONYMOUS_READ = "none"  # type: ignore[attr-defined]
    assert browse(None).get("/vcs").headers["Location"] == "/login?next=/vcs"


def test_its_queries_do_not_grow(browse: Browse, admin: User, count_queries: Count) -> None:
    make_node()
    make_vc(capacity=1, most=1)
    client = browse(admin)
    client.get("/vcs/nlp")
    few = count_queries(lambda: client.get("/vcs/nlp"))
    for number in range(20):
        vc = make_vc(f"vc{number}", 1, 1)
        VcGrant.objects.create(vc=vc, username=f"u{number}")
        make_job(f"u{number}", vc=vc.name, state="RUNNING")
    assert count_queries(lambda: client.get("/vcs/nlp")) == few
    assert few <= 18


@pytest.mark.browser
def test_the_effect_follows_what_is_typed(tab: Callable[..., Tab], admin: User) -> None:
    make_vc()
    shown = tab(admin)
    page = shown.open("/vcs/nlp")
    page.fill("#vc-capacity", "40")
    expect(page.locator("#effect")).to_contain_text("default shrinks from 70 % to 60 %.")
    page.fill("#vc-capacity", "140")
    expect(page.locator("#effect")).to_contain_text("Give a number from 0 to 100.")
    page.fill("#vc-capacity", "40")
    expect(page.locator("#effect")).to_contain_text("default shrinks")
    shown.check("the effect")
    page.get_by_role("button", name="Save nlp").click()
    expect(page.locator("main")).to_contain_text("nlp was changed")
    page.click("[aria-label='Stop nlp']")
    expect(page.locator("#dialog [data-close]")).to_be_focused()
    page.locator("#dialog").get_by_role("button", name="Stop nlp").click()
    expect(page.locator("main")).to_contain_text("nlp is stopped")


@pytest.mark.browser
def test_it_works_without_a_script(tab: Callable[..., Tab], admin: User) -> None:
    make_vc()
    page = tab(admin, java_script_enabled=False).open("/vcs")
    page.get_by_role("link", name="Edit nlp").click()
    page.fill("#vc-capacity", "40")
    expect(page.get_by_role("button", name="Save nlp")).to_be_hidden()
    page.get_by_role("button", name="Show effect").click()
    expect(page.locator("#effect")).to_contain_text("default shrinks from 70 % to 60 %.")
    page.get_by_role("button", name="Save nlp").click()
    page.get_by_role("link", name="Delete nlp").click()
    page.get_by_role("button", name="Delete nlp").click()
    expect(page.locator("main")).to_contain_text("The virtual cluster nlp was deleted.")


SETTINGS = {
    "gpu_guarantee": "3",
    "gpu_ceiling": "6",
    "user_gpus": "2",
    "user_jobs": "5",
    "user_priority": "30",
    "share_half_life": "0",
    "min_run": "30",
    "store_quota": "100g",
    "profile": "pai",
    "rdma": "1",
    "node": ["n2"],
}


def test_admins_change_its_settings_and_see_them(browse: Browse, admin: User, alice: User) -> None:
    make_node("n1", gpus=8)
    make_node("n2", gpus=2)
    vc = make_vc()
    answer = browse(admin).post("/vcs/nlp/settings", SETTINGS, follow=True)
    assert "The settings of nlp were saved." in answer.content.decode()
    vc.refresh_from_db()
    assert (vc.gpu_guarantee, vc.gpu_ceiling, vc.user_gpus, vc.user_jobs, vc.store_quota) == (3, 6, 2, 5, 100 << 30)
    assert (vc.user_priority, vc.share_half_life, vc.min_run) == (30, 0, 30)
    assert "What its own jobs borrow they keep for 30 min at least." in text(browse(alice), "/vcs/nlp")
    assert (
        "What others have borrowed of the guarantee of default comes back in 30 min at most, and the time that they "
        "take to end: the minimum run of nlp is 30 min."
    ) in text(browse(alice), "/vcs/default")
    assert (vc.profile, vc.rdma, [node.name for node in vc.dedicated_nodes.all()]) == ("pai", True, ["n2"])
    form = browse(admin).get("/vcs/nlp").context["settings"]
    assert (form.gpu_guarantee, form.store_quota, form.profile, form.nodes) == ("3", "100g", "pai", ("n2",))
    line = browse(None).get("/vcs").context["lines"][1]
    assert (line.guaranteed_cell, line.most_cell) == (("5", "a number and n2"), ("8", "a number and n2"))
    assert (line.view.guaranteed, line.view.most) == (50, 80)
    assert "Settings of nlp" not in text(browse(alice), "/vcs/nlp")
    nothing = dict.fromkeys(
        ("gpu_guarantee", "gpu_ceiling", "user_gpus", "user_jobs", "user_priority", "share_half_life", "min_run"), ""
    )
    browse(admin).post("/vcs/nlp/settings", {**nothing, "profile": "default"})
    vc.refresh_from_db()
    assert (vc.gpu_guarantee, vc.store_quota, vc.profile, vc.rdma) == (None, None, "default", False)
    assert (vc.user_priority, vc.share_half_life, vc.min_run) == (0, 24, 0)
    assert not vc.dedicated_nodes.exists()


@pytest.mark.parametrize(
    ("was", "kept"),
    [(None, (7, 9)), ("", (5, 9)), ("[" * 100_000, (5, 9)), ("[]", (5, 9)), ('{"user_jobs": 8}', (5, 9))],
)
def test_what_another_admin_has_saved_meanwhile_stays(
    browse: Browse, admin: User, was: str | None, kept: tuple[int, int]
) -> None:
    vc = make_vc(min_run=5)
    shown = browse(admin).get("/vcs/nlp").context["settings"]
    of_both = {"share_half_life": "24", "grace": "30", "notebook_minutes": "120", "profile": "default"}
    browse(admin).post("/vcs/nlp/settings", {**of_both, "was": shown.was, "min_run": "7"})
    was = shown.was if was is None else was
    browse(admin).post("/vcs/nlp/settings", {**of_both, "was": was, "min_run": "5", "user_jobs": "9"})
    vc.refresh_from_db()
    assert (vc.min_run, vc.user_jobs) == kept


@pytest.mark.parametrize(
    ("typed", "field", "says"),
    [
        ({"gpu_guarantee": "9"}, "", "The pool has 8 GPUs, of which others are guaranteed 0: 8 are left."),
        ({"gpu_guarantee": "many"}, "gpu_guarantee", "Give a whole number from 0, or nothing."),
        ({"gpu_guarantee": "5", "gpu_ceiling": "4"}, "", "It may not be less than the 5 GPUs that are guaranteed."),
        ({"user_jobs": "0"}, "user_jobs", "Give a whole number from 1, or nothing."),
        ({"user_gpus": "9" * 30}, "user_gpus", "Give a whole number from 0, or nothing."),
        ({"gpu_ceiling": "0" * 20 + "9" * 20}, "gpu_ceiling", "Give a whole number from 0, or nothing."),
        ({"gpu_guarantee": "0" * 5000 + "1"}, "gpu_guarantee", "Give a whole number from 0, or nothing."),
        ({"user_priority": "-1"}, "user_priority", "Give a whole number from 0 to 100, or nothing."),
        ({"user_priority": "101"}, "user_priority", "Give a whole number from 0 to 100, or nothing."),
        ({"share_half_life": "9000"}, "share_half_life", "Give a whole number from 0 to 8760, or nothing."),
        ({"store_quota": "a lot"}, "store_quota", "Give a size such as 100g, none for no limit, or nothing."),
        ({"profile": "root"}, "profile", "Choose default or pai."),
        ({"node": ["n9"]}, "", "There is no node n9."),
        ({"node": ["n\0"]}, "", "There is no node n."),
        ({"node": ["n2"]}, "", "Node n2 is dedicated to vision; take it from there first."),
    ],
)
def test_a_wrong_setting_is_said_at_its_field_and_changes_nothing(
    browse: Browse, admin: User, typed: dict[str, object], field: str, says: str
) -> None:
    make_node("n1", gpus=8)
    make_vc()
    make_node("n2", dedicated_to=make_vc("vision", 0, 0))
    answer = browse(admin).post("/vcs/nlp/settings", {"profile": "default", **typed})
    assert (answer.status_code, answer.context["settings"].errors) == (400, {field: says})
    assert says in answer.content.decode()
    vc = VirtualCluster.objects.get(name="nlp")
    assert (vc.gpu_guarantee, vc.user_jobs, vc.store_quota, vc.dedicated_nodes.count()) == (None, None, None, 0)


def test_a_form_without_a_profile_gives_none(browse: Browse, admin: User) -> None:
    make_vc()
    browse(admin).post("/vcs/nlp/settings", {"profile": ""})
    assert VirtualCluster.objects.get(name="nlp").profile == "default"


def test_default_has_a_quota_and_caps_only(browse: Browse, admin: User) -> None:
    make_vc()
    shown = text(browse(admin), "/vcs/default")
    assert "Files of each user" in shown
    assert "Guaranteed GPUs" not in shown
    browse(admin).post("/vcs/default/settings", {**SETTINGS, "node": []})
    row = VirtualCluster.objects.get(name="default")
    assert (row.store_quota, row.user_jobs, row.user_gpus, row.user_priority) == (100 << 30, 5, 2, 30)
    assert (row.gpu_guarantee, row.profile, row.rdma) == (None, "default", False)


def test_only_admins_change_settings(browse: Browse, alice: User) -> None:
    make_vc()
    for path in ("/vcs/nlp/settings", "/vcs/default/settings"):
        assert browse(alice).post(path, SETTINGS).status_code == 403
        assert browse(None).post(path, SETTINGS).status_code == 302
    assert browse(alice).get("/vcs/gone/settings").status_code == 403


@pytest.mark.browser
def test_the_settings_look_right(tab: Callable[..., Tab], admin: User) -> None:
    make_node("n1", gpus=8)
    make_vc()
    make_node("gpu-07", gpus=4)
    shown = tab(admin)
    page = shown.open("/vcs/nlp")
    page.fill("#vc-user_jobs", "0")
    page.check("text=gpu-07")
    page.click("text=Save the settings")
    expect(page.locator("#settings")).to_contain_text("Give a whole number from 1")
    shown.faults.clear()  # the console notes the 400
    shown.check_here("a setting that is refused")
    page.fill("#vc-user_jobs", "4")
    page.click("text=Save the settings")
    expect(page.locator("main")).to_contain_text("The settings of nlp were saved.")
    expect(page.get_by_label("gpu-07")).to_be_checked()


def test_it_shows_what_each_user_holds_used_lately_and_who_is_next(
    browse: Browse, admin: User, alice: User, bob: User, settings: object
) -> None:
    node = make_node(gpus=8, cpus=64)
    make_vc(capacity=50, share_half_life=24)
    make_job("alice", state="RUNNING", gpus=2, node=node, vc="nlp")
    make_job("alice", vc="nlp")
    make_job("bob", vc="nlp")
    at = timezone.now() - timedelta(hours=24)
    PastUse.objects.create(username="carol", vc="nlp", cpu=0, memory=0, gpu=4, at=at)
    PastUse.objects.create(username="dave", vc="default", cpu=0, memory=0, gpu=4, at=at)
    parts = browse(admin).get("/vcs/nlp").context["parts"]
    shown = [tuple(part[what] for what in ("username", "held", "share", "waiting", "next")) for part in parts]
    assert shown == [("bob", "0", "0 %", 1, 1), ("alice", "2", "50 %", 1, 2), ("carol", "0", "50 %", 0, None)]
    assert [part["lately"] for part in parts] == ["0", "0", "2.0"]
    assert "Shares of nlp" in text(browse(bob), "/vcs/nlp") and "h-shares" not in text(browse(admin))
    settings.JOB_PRIVACY = "owner"  # type: ignore[attr-defined]
    for viewer, names in ((bob, ["bob"]), (None, []), (admin, ["bob", "alice", "carol"])):
        parts = browse(viewer).get("/vcs/nlp").context["parts"]
        assert [part["username"] for part in parts] == names


def test_shares_are_shown_page_by_page(browse: Browse, admin: User) -> None:
    make_node(gpus=8)
    make_vc(capacity=50)
    now = timezone.now()
    rows = [PastUse(username=f"u{at:02}", vc="nlp", cpu=0, memory=0, gpu=1 + at, at=now) for at in range(45)]
    PastUse.objects.bulk_create(rows)
    client = browse(admin)
    pages = {page: client.get(f"/vcs/nlp?page={page}").context for page in ("1", "2", "3", "x", "999", "9" * 40)}
    sizes = {page: (len(shown["parts"]), shown["parts"][0]["username"]) for page, shown in pages.items()}
    first, last = (20, "u44"), (5, "u04")
    assert sizes == {"1": first, "2": (20, "u24"), "3": last, "x": first, "999": last, "9" * 40: first}
    links = [(bool(pages[page]["newer"]), bool(pages[page]["older"])) for page in "123"]
    assert links == [(False, True), (True, True), (True, False)] and pages["1"]["users"] == 45
