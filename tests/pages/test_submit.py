"""The submit page: paste, upload, samples, clones, errors beside the line, what would happen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect

from base.core.values import milliseconds
from base.models import User
from clusters.models import VcGrant, VirtualCluster
from jobs.config.samples import SAMPLES
from jobs.forecast import outlook
from jobs.models import Job, Template
from tests.builders import make_config, make_job, make_node
from tests.helpers import LIMIT
from tests.history import HOUR, held
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
BAD = """{
  "jobName": "bad",
  "image": "x",
  "taskRoles": [{
    "name": "a",
    "cpuNumber": "many",
    "comand": "true"
  }]
}
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to forecast, and to try what would start a job sooner."""
    for limit in ("FORECAST", "CHANGES"):
        monkeypatch.setattr(outlook, limit, LIMIT)


def typed(page: Page, text: str) -> None:
    """What a user who pastes does; a phone shows the form first. Not by ``fill``: an editor that gets the focus puts
    its selection back where it was, which may come after all was selected."""
    if page.viewport_size and page.viewport_size["width"] < 700:
        page.click("[data-view=json]")
    page.focus(".cm-content")
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(text)


def sent(page: Page) -> str:
    """What the form would send now."""
    return str(page.evaluate("document.querySelector('#config').value"))


@pytest.mark.browser
def test_it_tells_of_every_problem_under_its_line_and_mends_it(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    shown = tab(alice)
    page = shown.open("/submit")
    typed(page, BAD)
    expect(page.locator("#plan")).to_contain_text("Line 6")
    why = page.locator(".cm-content .why")
    expect(why.first).to_contain_text("command is missing")
    expect(page.locator(".cm-line.bad")).to_contain_text(["{", "cpuNumber", "comand"])
    expect(page.locator("#submit")).to_be_disabled()
    expect(page.locator("#refuses")).to_contain_text("first.")
    shown.check("a config with problems")
    page.click("[data-goto='6']")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.type('"cpuNumber": 1, // enough')
    page.get_by_role("button", name='Rename to "command", line 7').first.click()
    assert sent(page) == BAD.replace('"many",', "1, // enough").replace("comand", "command")
    expect(page.locator("#plan")).to_contain_text("Starts once its image is pulled")
    expect(page.locator("#plan")).to_contain_text("Its image x:latest is not known to be on node node-1")
    expect(page.locator("#submit")).to_be_enabled()


@pytest.mark.browser
def test_form_and_json_change_each_other_and_comments_stay(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    shown = tab(alice)
    page = shown.open("/submit?template=two-roles")
    expect(page.locator("#role-name")).to_have_value("server")
    before = sent(page)
    page.fill("#role-memoryMB", "2048")
    page.keyboard.press("Control+j")
    expect(page.locator(".cm-content")).to_be_focused()
    expect(page.locator(".cm-activeLine")).to_contain_text("memoryMB")
    page.keyboard.press("Control+j")
    expect(page.locator("#role-memoryMB")).to_be_focused()
    page.get_by_role("button", name="worker 1").click()
    page.fill("#role-taskNumber", "3")
    page.fill("#role-name", "client")
    first = before.replace('"memoryMB": 100', '"memoryMB": 2048', 1)
    head, worker = first.split('"name": "worker"')
    expected = head + '"name": "client"' + worker.replace('"taskNumber": 1', '"taskNumber": 3', 1)
    assert sent(page) == expected
    typed(page, expected.replace('"image": "longshore/sample:1"', '"image": /* new */ "mine:2"'))
    expect(page.locator("#image")).to_have_value("mine:2")
    page.click("[data-add-role]")
    page.fill("#command", "true")
    page.click("[data-add-port]")
    page.click("[data-remove-role]")
    assert "/* new */" in sent(page) and sent(page).count('"name"') == 2
    page.fill("#role-taskNumber", "")
    assert sent(page).count("taskNumber") == 1 and sent(page).count("//") == before.count("//")
    expect(page.locator("#plan")).not_to_have_class("dim")


@pytest.mark.browser
def test_the_form_waits_while_the_json_cannot_be_read(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    shown = tab(alice)
    page = shown.open("/submit?template=hello-world")
    expect(page.locator("#job-name")).to_have_value("hello-world")
    typed(page, SAMPLES[0].config.replace('"hello-world",', '"hello-world"'))
    expect(page.locator("[data-waits]")).to_be_visible()
    expect(page.locator("#job-name")).to_be_disabled()
    expect(page.locator("#refuses")).to_contain_text("Fix line")
    shown.check("a form that waits")
    page.get_by_role("button", name="Add the comma, line").first.click()
    assert sent(page) == SAMPLES[0].config
    expect(page.locator("#job-name")).to_be_enabled()


@pytest.mark.browser
def test_the_editor_completes_fields_and_images_folds_and_lets_go_of_tab(tab: Callable[..., Tab], alice: User) -> None:
    make_node(images=["registry.lab/vision/swin:2.4"])
    page = tab(alice).open("/submit")
    typed(page, '{\n  "jobName": "a",\n  \n}')
    page.locator(".cm-line").nth(2).click()
    page.keyboard.type('"im')
    page.locator(".cm-tooltip-autocomplete li", has_text="image").click()
    assert '"image": ""' in sent(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.type("swin")
    page.locator(".cm-tooltip-autocomplete li", has_text="swin").click()
    assert '"image": "registry.lab/vision/swin:2.4"' in sent(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.cm-content')")
    typed(page, '{"jobName":"a", // why\n"taskRoles":[]}')
    page.get_by_role("button", name="Format").click()
    assert sent(page) == '{\n  "jobName": "a", // why\n  "taskRoles": []\n}'
    page.locator(".cm-foldGutter [title='Fold line']").first.click()
    expect(page.locator(".cm-foldPlaceholder")).to_be_visible()


@pytest.mark.browser
def test_it_submits_a_sample_with_the_keyboard(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    page = tab(alice).open("/submit?template=hello-world")
    expect(page.locator("#plan")).to_contain_text("Starts now")
    page.focus(".cm-content")
    page.keyboard.press("Control+Enter")
    expect(page.locator("h1")).to_have_text("hello-world")
    expect(page.locator("main")).to_contain_text("was submitted")
    assert (
        Job.objects.get().config == SAMPLES[0].config
    )  # sent once, and without the line that Ctrl Enter adds elsewhere


def test_it_does_not_promise_a_start_in_a_stopped_virtual_cluster(browse: Browse, alice: User) -> None:
    make_node()
    sent = {"config": SAMPLES[0].config}
    assert browse(alice).post("/submit/check", sent).context["plan"].title == "Starts now"
    VirtualCluster.objects.filter(name="default").update(status=VirtualCluster.Status.STOPPED)
    plan = browse(alice).post("/submit/check", sent).context["plan"]
    assert (plan.state, plan.title) == ("WAITING", "Waits")
    assert plan.sentences == ("VC default is stopped, so nothing new starts in it.",)


def test_it_does_not_promise_a_start_behind_a_job_that_holds_the_queue(browse: Browse, alice: User) -> None:
    make_job("bob", state="RUNNING", node=make_node(cpus=2))
    make_job("bob", "large", config={"taskRoles": [{"name": "w", "cpuNumber": 2, "memoryMB": 100, "command": "x"}]})
    check = {"config": json.dumps(make_config("mine"))}
    plan = browse(alice).post("/submit/check", check).context["plan"]
    assert plan.title == "Starts now", "alice has used less than bob"
    Job.objects.filter(name="large").update(keeps_turn=True)  # once a pass has reserved for it
    plan = browse(alice).post("/submit/check", check).context["plan"]
    assert plan.sentences == (
        "The room that it would fit into is reserved for bob/large.",
        "One job is ahead of it in VC default; it starts before them only on room that they do not need.",
    )


def test_it_says_when_it_would_start_after_whom_and_what_would_start_now(browse: Browse, alice: User) -> None:
    make_job("bob", "train-9", state="RUNNING", gpus=4, node=make_node(gpus=4), age=1)
    make_node("gpu-02", gpus=1)
    now = milliseconds(timezone.now())
    for at in range(20):
        held(now - (at + 2) * HOUR, now - (at + 1) * HOUR + at * 60_000, username="bob", gpus=4, job_name=f"train-{at}")
    plan = browse(alice).post("/submit/check", {"config": json.dumps(make_config("mine", gpus=2))}).context["plan"]
    assert re.fullmatch(r"It starts at about .+; 8 of 10 such starts are between .+ and .+\.", plan.sentences[0])
    assert plan.sentences[1] == "Most likely bob/train-9 ends right before."
    assert plan.instead == (("Ask for 1 GPU a task instead of 2.", '{"gpuNumber": 1}'), ("bob/train-9 ends.", ""))
    assert (plan.use.vc, plan.use.text) == ("default", "4 used + 2 GPUs; 5 guaranteed")


def test_a_change_that_starts_it_now_is_put_into_the_text(browse: Browse, alice: User) -> None:
    make_node(gpus=4)
    text = json.dumps(make_config("mine", gpus=8), indent=2).replace("{", "{ // mine", 1)
    page = browse(alice).post("/submit", {"config": text, "use": '{"gpuNumber": 4}'})
    assert page.context["text"] == text.replace('"gpuNumber": 8', '"gpuNumber": 4')
    assert page.context["plan"].title == "Starts now"
    for use in ("{", '{"more": 1}', '{"taskNumber": {"worker": 0}}'):
        assert browse(alice).post("/submit", {"config": text, "use": use}).status_code == 400
    assert browse(alice).post("/submit", {"config": "{,", "use": '{"gpuNumber": 4}'}).status_code == 400
    assert not Job.objects.exists()


@pytest.mark.browser
def test_use_puts_the_change_into_the_editor(tab: Callable[..., Tab], alice: User) -> None:
    make_node(gpus=4)
    page = tab(alice).open("/submit")
    typed(page, json.dumps(make_config("mine", gpus=8), indent=2))
    page.get_by_role("button", name="Use: Ask for 4 GPUs a task instead of 8.").click()
    expect(page.locator("#plan")).to_contain_text("Starts now")
    assert '"gpuNumber": 4' in sent(page)


@pytest.mark.browser
def test_what_it_says_of_a_start_is_fit_for_everybody(tab: Callable[..., Tab], alice: User) -> None:
    make_job("bob", "train-9", state="RUNNING", gpus=4, node=make_node(gpus=4))
    shown = tab(alice)
    page = shown.open("/submit")
    typed(page, json.dumps(make_config("mine", gpus=2), indent=2))
    expect(page.locator("#plan")).to_contain_text("4 used + 2 GPUs; 4 guaranteed")
    shown.check_here("the outlook")


@pytest.mark.browser
def test_it_reads_a_file_into_the_editor(tab: Callable[..., Tab], alice: User) -> None:
    make_node()
    page = tab(alice).open("/submit")
    page.set_input_files("#file", {"name": "job.json", "mimeType": "application/json", "buffer": BAD.encode()})
    expect(page.locator("#plan")).to_contain_text("problems")
    assert sent(page) == BAD


@pytest.mark.browser
def test_it_shows_problems_without_a_script_and_keeps_what_was_typed(tab: Callable[..., Tab], alice: User) -> None:
    page = tab(alice, java_script_enabled=False).open("/submit")
    page.fill("#config", BAD)
    page.get_by_role("button", name="Submit job").click()
    expect(page.locator("#config")).to_have_value(BAD)
    expect(page.locator("#plan")).to_contain_text("Line 7")
    assert not Job.objects.exists()


def test_it_refuses_a_bad_config_with_400(browse: Browse, alice: User) -> None:
    answer = browse(alice).post("/submit", {"config": BAD})
    assert answer.status_code == 400
    assert "There is no field" in answer.content.decode() or "comand" in answer.content.decode()


def test_it_asks_again_before_it_takes_a_job_that_can_never_run(browse: Browse, alice: User) -> None:
    make_node(cpus=2)
    config = SAMPLES[0].config.replace('"cpuNumber": 1', '"cpuNumber": 64')
    answer = browse(alice).post("/submit", {"config": config})
    assert "Can never run here" in answer.content.decode()
    assert not Job.objects.exists()
    assert browse(alice).post("/submit", {"config": config, "anyway": "1"}).status_code == 302
    assert Job.objects.count() == 1


def test_it_refuses_a_name_in_use_at_its_line(browse: Browse, alice: User) -> None:
    make_job("alice", "hello-world")
    answer = browse(alice).post("/submit", {"config": SAMPLES[0].config})
    assert answer.status_code in (400, 409)
    assert "already exists" in answer.content.decode()
    assert Job.objects.count() == 1


def test_it_clones_with_the_next_free_name_and_the_comments(browse: Browse, alice: User) -> None:
    make_job("alice", "train-7", text='{\n  // why\n  "jobName": "train-7"\n}')
    make_job("alice", "train-8")
    shown = browse(alice).get("/submit?from=alice/train-7").context["text"]
    assert shown == '{\n  // why\n  "jobName": "train-9"\n}'


def test_it_takes_an_uploaded_file_without_a_script(browse: Browse, alice: User) -> None:
    make_node()
    file = SimpleUploadedFile("job.jsonc", "\ufeff".encode() + SAMPLES[0].config.encode())
    answer = browse(alice).post("/submit", {"config": "", "file": file, "action": "load"})
    assert answer.context["text"] == SAMPLES[0].config
    assert not Job.objects.exists()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"x" * 200_000])
def test_it_refuses_a_file_that_is_no_config(browse: Browse, alice: User, content: bytes) -> None:
    answer = browse(alice).post("/submit", {"file": SimpleUploadedFile("a.json", content), "action": "load"})
    assert answer.status_code == 400


def test_it_sends_a_guest_to_sign_in_and_back(browse: Browse) -> None:
    assert browse(None).get("/submit?template=fails").headers["Location"] == "/login?next=/submit%3Ftemplate%3Dfails"


PACKED = (
    '{"jobName":"train","image":"x","retryCount":1e1,"taskRoles":[{"name":"a","command":"'
    + "echo {a:1}; " * 30
    + '"}]}'
)
YAML = "# my job\njobName: train\nimage: x\ntaskRoles:\n  - name: a\n    command: 'true'\n"


def test_a_config_on_one_line_is_shown_on_many_and_the_original_stays(browse: Browse, alice: User) -> None:
    make_job("alice", "train", text=PACKED)
    client = browse(alice)
    shown = client.get("/jobs/alice/train/config").context["lines"]
    assert len(shown) == 11 and "".join(text for _, text in shown[3]) == '  "retryCount": 1e1,'
    assert len(client.get("/jobs/alice/train/config?original").context["lines"]) == 1
    assert client.get("/jobs/alice/train/config?download=1").content.decode() == PACKED
    cloned = client.get("/submit?from=alice/train").context["text"]
    assert cloned.startswith('{\n  "jobName": "train-2",\n') and cloned.count("\n") == 11
    assert client.post("/submit", {"config": PACKED, "action": "layout"}).context["text"].count("\n") == 11


def test_yaml_is_called_yaml_and_can_be_turned_into_json(browse: Browse, alice: User) -> None:
    make_node()
    client = browse(alice)
    shown = client.post("/submit/check", {"config": YAML}).content.decode()
    assert "This is YAML" in shown and "Lay out, above the text, turns this into JSON" in shown
    turned = client.post("/submit", {"config": YAML, "action": "layout"})
    assert turned.context["text"].startswith('{\n  "jobName": "train"')
    assert turned.context["plan"].title.startswith("Starts")
    assert "YAML" not in client.post("/submit/check", {"config": "{ jobName: x }"}).content.decode()


def test_templates_are_ones_own_or_of_a_virtual_cluster(browse: Browse, alice: User, bob: User, admin: User) -> None:
    vision = VirtualCluster.objects.create(name="vision", capacity=10, max_capacity=10)
    VcGrant.objects.create(vc=vision, username="alice")
    secret = SAMPLES[0].config.replace("{", '{"extras": {"secrets": {"KEY": "opensesame"}},', 1)
    save = {"config": secret, "template_name": "detection"}
    assert browse(alice).post("/submit/templates", {**save, "template_vc": "vision"}).status_code == 302
    assert browse(bob).post("/submit/templates", {**save, "template_vc": "vision"}).status_code == 403
    assert browse(admin).post("/submit/templates", {**save, "template_vc": "vision"}).status_code == 409
    assert browse(alice).post("/submit/templates", save).status_code == 302
    assert "opensesame" not in Template.objects.all()[0].config + Template.objects.all()[1].config
    own = Template.objects.get(vc="")
    of_vc = Template.objects.get(vc="vision")
    assert [each.name for each in browse(bob).get("/submit").context["templates"]] == []
    assert browse(bob).get(f"/submit?saved={of_vc.pk}").status_code == 404
    assert browse(admin).get(f"/submit?saved={own.pk}").status_code == 404
    text = browse(alice).get(f"/submit?saved={of_vc.pk}").context["text"]
    assert "(secret)" in text and Template.objects.get(pk=of_vc.pk).used == 1
    VcGrant.objects.create(vc=vision, username="bob")
    assert browse(bob).post(f"/submit/templates/{of_vc.pk}/delete").status_code == 403
    assert browse(admin).post(f"/submit/templates/{of_vc.pk}/delete").status_code == 302
    for text, name in (("{", "x"), ('{"a": 1, "a": 2}', "x"), ("{}", ""), ("{}", "x" * 81)):
        assert browse(alice).post("/submit/templates", {"config": text, "template_name": name}).status_code == 400


def test_images_are_those_of_nodes_that_a_users_jobs_may_use(browse: Browse, alice: User, settings: Any) -> None:
    vision = VirtualCluster.objects.create(name="vision", capacity=10, max_capacity=10)
    make_node("a", images=["x:1", "y:1"])
    make_node("b", images=["x:1"])
    make_node("c", images=["theirs:1"], dedicated_to=vision)
    seen = browse(alice).get("/submit/images").json()["images"]
    assert seen == [{"name": "x:1", "nodes": 2}, {"name": "y:1", "nodes": 1}]
    settings.JOB_PRIVACY = "owner"
    make_job("alice", config={"image": "docker.io/library/y:1"})
    make_job("bob", config={"image": "x:1"})
    assert browse(alice).get("/submit/images").json()["images"] == [{"name": "y:1", "nodes": 1}]


def test_the_schema_is_sent_once(browse: Browse, alice: User) -> None:
    answer = browse(alice).get("/submit/schema")
    assert answer.json()["properties"]["jobName"]["description"]
    again = browse(alice).get("/submit/schema", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304 and not again.content


def test_it_answers_a_script_with_the_text_alone(browse: Browse, alice: User) -> None:
    answer = browse(alice).get("/submit?template=fails", headers={"Accept": "application/json"})
    assert answer.json()["text"] == SAMPLES[2].config
