"""Every page with its forms: who is shown it, and in whose name a form that is sent changes something.

A form has fields that do something. It is sent by everybody; ``by`` are those in whose name it writes rows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.core.files.base import ContentFile
from django.test import override_settings
from django.utils import timezone

from base.accounts import services as accounts
from base.accounts import tokens
from base.core import sealed
from base.files.store import open_store
from base.models import AuditEvent, Identity, SignInRule, Terminal, User
from clusters import models
from clusters.models import KeptImage, Node, VcGrant, VirtualCluster
from clusters.users import services as users
from clusters.users.csv_import import TEMPLATE
from jobs import services
from jobs.containers import sshkeys
from jobs.models import Job, NoticeDelivery, NoticeRow, Task
from jobs.notices import consent
from jobs.replay import run
from jobs.submitting import drafts, sweeps, templates
from jobs.web_pages.models import PageShare
from portal.docs import wheel
from portal.web_pages import opening
from tests.builders import add_event, make_job, make_node
from tests.conftest import PASSWORD
from tests.hosts import Hosts
from tests.integration.test_kubernetes_nodes import KUBECONFIG
from tests.integration.test_sweeps import text
from tests.notices import channel, told
from tests.submitting import config_text

Who = frozenset[str]
EVERYBODY = frozenset({"guest", "service", "owner", "other", "manager", "auditor", "admin"})
SIGNED_IN = EVERYBODY - {"guest", "service"}  # a service account has no session, and no page but one reads a token
USERS = SIGNED_IN - {"auditor"}
OWNER = frozenset({"owner"})
INSIDERS = OWNER | {"admin"}
READERS = INSIDERS | {"auditor"}
ADMIN = frozenset({"admin"})
AUDITORS = ADMIN | {"auditor"}
MANAGERS = ADMIN | {"manager"}
NOBODY: Who = frozenset()
SOON = timedelta(days=1)
_KEY = sshkeys.generate("ed25519", "new").public
_KUBERNETES = {"name": "new", "namespace": "jobs", "port_from": "30000", "port_to": "39999", "network": "host"}


@dataclass(frozen=True)
class Form:
    """``do`` is the query of its address; ``of`` are other names in that than ``Place`` has."""

    by: Who
    fields: dict[str, Any] = field(default_factory=dict)
    do: str = ""
    of: dict[str, str] = field(default_factory=dict)


class Page:
    """``shown``: to whom by GET. ``asked``: the same with a query. ``forms``: what it takes by POST."""

    def __init__(self, shown: Who, *forms: Form, asked: dict[str, Who] | None = None, **of: str) -> None:
        self.shown, self.forms, self.asked, self.of = shown, forms, asked or {}, of


_JOB = "jobs/<str:username>/<str:name>"
_NODE = "nodes/<node:name>"
_CHANNEL = "account/notices/channels/<str:channel>"
_ADDED = {"action": "add", "username": "eve", "password": PASSWORD, "role": "user", "active": "1"}
_SOCKET = {"name": "spare", "kind": "unix", "socket": "/spare", "network": "host", "port_from": "30000"}
_SOCKET |= {"port_to": "39999", "address": "10.0.0.9", "cpus": "4", "memory": "4096", "action": "add"}
_COMMAND = {"port": "50000", "challenge": "a" * 64}
_TOKEN = {"name": "new", "days": "30", "scope": "jobs:read"}
_AGAIN = {"change": json.dumps({"gpuNumber": 0, "maxRunSeconds": 60})}
_WEB = {"role": "worker", "index": "0", "label": "web"}

PAGES: dict[str, Page] = {
    "theme": Page(NOBODY, Form(NOBODY, {"theme": "dark"})),
    "clients": Page(EVERYBODY),
    "clients/<str:name>": Page(EVERYBODY, name="{wheel}"),
    "guides": Page(EVERYBODY),
    "guides/<path:name>": Page(EVERYBODY, name="run/roles"),
    "login": Page(EVERYBODY, Form(EVERYBODY, {"username": "bob", "password": PASSWORD})),
    "logout": Page(NOBODY, Form(NOBODY)),
    "sign-in/<str:name>": Page(NOBODY, name="none"),
    "sign-in/<str:name>/back": Page(NOBODY, name="none"),
    "account": Page(
        SIGNED_IN, Form(SIGNED_IN, {"old_password": PASSWORD, "new_password": "new horse 1", "again": "new horse 1"})
    ),
    "account/sign-in/<int:identity_id>/unlink": Page(NOBODY, Form(OWNER)),
    "account/sign-in/<str:name>/link": Page(NOBODY, Form(NOBODY, {"username": "a", "password": "b"}), name="none"),
    "account/tokens": Page(SIGNED_IN, Form(SIGNED_IN, _TOKEN)),
    "account/tokens/<int:token_id>/revoke": Page(OWNER, Form(OWNER)),
    "account/tokens/clients/revoke": Page(SIGNED_IN, Form(OWNER, {"client": "laptop"})),
    "account/command": Page(NOBODY, Form(SIGNED_IN, _COMMAND), asked={f"?{urlencode(_COMMAND)}": SIGNED_IN}),
    "account/keys": Page(SIGNED_IN, Form(SIGNED_IN, {"key": _KEY})),
    "account/keys/<int:key_id>/remove": Page(OWNER, Form(OWNER)),
    "notices": Page(SIGNED_IN, Form(OWNER | {"auditor"}, {"up_to": "999999"})),
    "account/notices": Page(
        SIGNED_IN,
        Form(SIGNED_IN, {"name": "mine", "kind": "webhook", "target": "https://hooks.example.org/y"}),
        Form(ADMIN, {"name": "mine", "kind": "webhook", "target": "https://hooks.example.org/y"}, do="?vc=nlp"),
        Form(OWNER, {"rule": "failed", "channel": "hook", "minutes": "5"}),
        asked={"?vc=nlp": ADMIN},
    ),
    "account/notices/rules/delete": Page(NOBODY, Form(OWNER, {"rule": "idle", "channel": "hook"})),
    "account/notices/hours": Page(
        NOBODY, Form(SIGNED_IN, {"begin": "22:00", "end": "07:00", "digest": "08:00", "zone": "Europe/Berlin"})
    ),
    "account/notices/calls": Page(SIGNED_IN, asked={"?vc=nlp": ADMIN}),
    "account/notices/calls/<str:delivery>/again": Page(NOBODY, Form(OWNER)),
    f"{_CHANNEL}/delete": Page(OWNER, Form(OWNER)),
    f"{_CHANNEL}/test": Page(NOBODY, Form(OWNER)),
    f"{_CHANNEL}/waiting": Page(NOBODY, Form(OWNER)),
    "files": Page(SIGNED_IN, Form(ADMIN, {"name": "made"}, do="?do=folder")),
    "files/<file:path>": Page(
        INSIDERS,
        Form(INSIDERS, {"name": "made"}, do="?do=folder"),
        Form(INSIDERS, {"name": "moved"}, do="?do=rename", of={"path": "user/alice/plain"}),
        Form(INSIDERS, {"names": json.dumps(["plain"])}, do="?do=delete"),
        Form(INSIDERS, {"file": ContentFile(b"x", "up"), "end": "1"}, do="?do=upload"),
        Form(NOBODY, {"names": "[]"}, do="?do=check"),
        asked={"?do=tar": INSIDERS, "?do=delete&name=plain": INSIDERS},
    ),
    "hosts": Page(AUDITORS),
    "admin/audit": Page(SIGNED_IN),
    "nodes": Page(SIGNED_IN),
    _NODE: Page(SIGNED_IN),
    f"{_NODE}/drain": Page(ADMIN, Form(ADMIN, {"to": "draining"})),
    f"{_NODE}/edit": Page(ADMIN, Form(ADMIN, {**_SOCKET, "socket": "/nowhere", "labels": "rack=7", "action": "save"})),
    f"{_NODE}/remove": Page(ADMIN, Form(ADMIN, of={"name": "n2"})),
    f"{_NODE}/status": Page(ADMIN, Form(ADMIN, {"to": "cordoned"})),
    f"{_NODE}/gone": Page(ADMIN, Form(ADMIN, of={"name": "n2"})),
    f"{_NODE}/metrics": Page(SIGNED_IN),
    f"{_NODE}/metrics/data": Page(SIGNED_IN),
    "add-node": Page(ADMIN, Form(ADMIN, _SOCKET)),
    "add-cluster": Page(ADMIN, Form(ADMIN, {**_KUBERNETES, "action": "add", "kubeconfig": KUBECONFIG})),
    "clusters/<str:name>/edit": Page(ADMIN, Form(ADMIN, {"selector": "pool=gpu", "action": "save"})),
    "clusters/<str:name>/remove": Page(ADMIN, Form(ADMIN)),
    "check-cluster": Page(AUDITORS, Form(ADMIN)),
    "wall": Page(EVERYBODY),
    "admin/sign-in": Page(ADMIN, Form(ADMIN, {"raise": "{second_rule}"})),
    "admin/sign-in/rules/new": Page(ADMIN, Form(ADMIN, {"group": "staff", "lets_in": "1"})),
    "admin/sign-in/rules/<int:rule_id>": Page(ADMIN, Form(ADMIN, {"group": "staff", "lets_in": "1"})),
    "admin/sign-in/rules/<int:rule_id>/remove": Page(ADMIN, Form(ADMIN)),
    "users": Page(
        AUDITORS, Form(ADMIN, _ADDED), Form(ADMIN, {"action": "import", "sealed": "{sealed}"}), asked={"?q=a": AUDITORS}
    ),
    "users/<str:username>": Page(ADMIN, Form(ADMIN, {"role": "admin", "active": "1", "email": "x@example.org"})),
    "users/<str:username>/delete": Page(ADMIN, Form(ADMIN, of={"username": "bob"})),
    "users/<str:username>/tokens": Page(ADMIN, Form(ADMIN, _TOKEN), username="ci"),
    "users/<str:username>/tokens/<int:token_id>/revoke": Page(ADMIN, Form(ADMIN), username="ci", token_id="{ci_token}"),
    "vcs": Page(EVERYBODY, Form(ADMIN, {"name": "new", "capacity": "5", "maximum": "10"})),
    "vcs/<str:name>": Page(EVERYBODY, Form(ADMIN, {"capacity": "7", "maximum": "30"})),
    "vcs/<str:name>/settings": Page(MANAGERS, Form(MANAGERS, {"user_gpus": "2", "notebook_minutes": "30"})),
    "vcs/<str:name>/status": Page(MANAGERS, Form(MANAGERS, {"to": "stopped"})),
    "vcs/<str:name>/users": Page(
        NOBODY,
        Form(MANAGERS, {"username": "bob", "action": "give", "priority": "5"}),
        Form(MANAGERS, {"username": "alice", "action": "end"}),
        Form(ADMIN, {"username": "mona", "action": "end"}),
    ),
    "vcs/<str:name>/delete": Page(ADMIN, Form(ADMIN, of={"name": "empty"})),
    "": Page(EVERYBODY, asked={"?as=cluster": EVERYBODY}),
    "jobs": Page(EVERYBODY, asked={"?keyword=hush": EVERYBODY, "?username=alice": EVERYBODY}),
    "jobs/stop": Page(SIGNED_IN, Form(INSIDERS, {"job": "alice/waits"}), asked={"?job=alice/waits": SIGNED_IN}),
    "jump": Page(EVERYBODY, asked={"?q=alice/runs": EVERYBODY, "?q=/user/alice": EVERYBODY}),
    "jump/near": Page(EVERYBODY, asked={"?q=ru": EVERYBODY, "?q=/user/al": EVERYBODY}),
    "stream/page": Page(
        NOBODY,
        asked={
            "?page=home": EVERYBODY,
            "?page=home&as=cluster": EVERYBODY,
            "?page=jobs&top=9999999&shown=9": EVERYBODY,
            "?page=job&user=alice&name=runs&tab=tasks": EVERYBODY,
            **{f"?page=job&user=alice&name=runs&tab={tab}": READERS for tab in ("events", "attempts", "ssh", "web")},
            "?page=terminal&user=alice&name=runs&tab=terminal": READERS,
            "?page=nodes": SIGNED_IN,
            "?page=node&name=n1": SIGNED_IN,
            "?page=drain&name=n1": ADMIN,
            "?page=wall": EVERYBODY,
            "?page=check": AUDITORS,
            "?page=sweep&user=alice&name=train": EVERYBODY,
            "?page=replay&id={replay}": AUDITORS,
        },
    ),
    "submit": Page(
        SIGNED_IN,
        Form(USERS, {"config": config_text("new")}),
        Form(NOBODY, {"config": config_text("new"), "action": "check"}),
        asked={
            "?from=alice/runs": READERS,
            "?sweep=alice/train": READERS,
            "?draft={draft}": SIGNED_IN,
            "?saved={template}": OWNER,
        },
    ),
    "submit/check": Page(NOBODY, Form(NOBODY, {"config": config_text("new")})),
    "submit/sizes": Page(NOBODY, Form(NOBODY, {"config": config_text("new"), "role": "0"})),
    "submit/schema": Page(SIGNED_IN),
    "submit/ignored": Page(NOBODY, Form(NOBODY, {"patterns": "*.pt", "paths": '["a.pt"]'})),
    "submit/drafts": Page(NOBODY, Form(USERS, {"config": "{}"})),
    "submit/drafts/<int:id>/delete": Page(NOBODY, Form(OWNER), id="{draft}"),
    "submit/templates": Page(
        NOBODY,
        Form(USERS, {"config": config_text("new"), "template_name": "new"}),
        Form(USERS - {"other"}, {"config": config_text("new"), "template_name": "new", "template_vc": "nlp"}),
    ),
    "submit/templates/<int:id>/delete": Page(NOBODY, Form(OWNER), id="{template}"),
    "submit/images": Page(SIGNED_IN),
    "sweeps/<str:username>/<str:name>": Page(EVERYBODY, name="train"),
    "sweeps/<str:username>/<str:name>/stop": Page(INSIDERS, Form(INSIDERS), name="train"),
    "notebooks": Page(SIGNED_IN, Form(USERS, {"tool": "jupyter", "size": "0", "image": "lab/image:1"})),
    "notebooks/<str:name>": Page(OWNER),
    "notebooks/<str:name>/give-back": Page(NOBODY, Form(OWNER), name="waits"),
    _JOB: Page(EVERYBODY),
    f"{_JOB}/events": Page(READERS),
    f"{_JOB}/attempts": Page(READERS),
    f"{_JOB}/config": Page(READERS),
    f"{_JOB}/ssh": Page(READERS),
    f"{_JOB}/ssh/logins": Page(READERS),
    f"{_JOB}/stop": Page(INSIDERS, Form(INSIDERS), asked={"?now=1": INSIDERS}),
    f"{_JOB}/release": Page(INSIDERS, Form(INSIDERS)),
    f"{_JOB}/delete": Page(INSIDERS, Form(INSIDERS), name="over"),
    f"{_JOB}/why": Page(READERS, name="waits"),
    f"{_JOB}/why/fixes": Page(READERS, name="waits"),
    f"{_JOB}/change": Page(NOBODY, Form(OWNER, _AGAIN), asked={"?change={{}}": OWNER}, name="waits"),
    f"{_JOB}/again": Page(NOBODY, Form(OWNER, _AGAIN), name="over"),
    f"{_JOB}/place": Page(
        INSIDERS | MANAGERS,
        Form(INSIDERS | MANAGERS, {"priority": "-5"}),
        Form(MANAGERS, {"before": "alice/waits"}, of={"name": "behind"}),
        name="waits",
    ),
    f"{_JOB}/rewind": Page(NOBODY, Form(INSIDERS), name="over"),
    f"{_JOB}/logs": Page(READERS),
    f"{_JOB}/logs/rows": Page(READERS),
    f"{_JOB}/logs/download": Page(READERS),
    "stream/logs/<str:username>/<str:name>": Page(READERS),
    "stream/logs/<str:username>/<str:name>/search": Page(NOBODY, asked={"?q=x": READERS}),
    f"{_JOB}/terminal": Page(READERS),
    f"{_JOB}/terminal/ready": Page(INSIDERS),
    f"{_JOB}/terminal/close": Page(NOBODY, Form(OWNER, {"token": "hush-shell"})),
    "terminal/<str:username>/<str:name>/<str:role>/<int:index>": Page(INSIDERS),
    f"{_JOB}/metrics": Page(READERS),
    f"{_JOB}/metrics/data": Page(READERS),
    f"{_JOB}/metrics/csv": Page(READERS),
    f"{_JOB}/web": Page(READERS, asked={"?share=worker/0/web": READERS}),
    f"{_JOB}/web/pages": Page(READERS),
    f"{_JOB}/web/share": Page(
        NOBODY,
        Form(INSIDERS, {**_WEB, "kind": "user", "name": "mona"}),
        Form(INSIDERS, {**_WEB, "kind": "link", "seconds": "3600"}),
        Form(INSIDERS, {**_WEB, "kind": "link", "name": "hush-link", "end": "1"}),
    ),
    # A job of an admin's reads no more than those of others.
    f"{_JOB}/web/serve": Page(
        NOBODY, Form(USERS - {"other", "manager", "admin"}, {"folder": "/user/alice"}), name="over"
    ),
    f"{_JOB}/web/<str:role>/<int:index>/<str:label>": Page(INSIDERS),
    "s/<str:token>": Page(EVERYBODY),
    "confirm-address/<str:token>": Page(EVERYBODY, Form(EVERYBODY, {"answer": "refuse"}), token="{consent}"),
    "usage": Page(SIGNED_IN),
    "forecasts": Page(AUDITORS),
    "timeline": Page(EVERYBODY),
    "metrics": Page(AUDITORS),
    "cluster/metrics": Page(SIGNED_IN),
    "cluster/metrics/data": Page(SIGNED_IN),
    "policy": Page(AUDITORS, asked={"?change=node:n1:drain": AUDITORS}),
    "replay": Page(AUDITORS, Form(ADMIN)),
    "replay/<int:id>": Page(AUDITORS, id="{replay}"),
}

# What is not for all to read begins with this sign, and for whom it is.
SEEN: dict[str, Who] = {
    **dict.fromkeys(("hush-command", "hush-env", "hush-event", "hush-image"), READERS),
    "hush-secret": NOBODY,
    "hush-file": INSIDERS,
    **dict.fromkeys(("hush-audit", "hush-token"), READERS),
    "hush-email": READERS,
    **dict.fromkeys(("hush-notice", "hush-hook", "hush-draft", "hush-template", "hush-shell"), OWNER),
    "hush-key": OWNER,
    "hush-link": INSIDERS,
    "hush-vc": ADMIN,
    "hush-rule": ADMIN,
    "hush-ci": AUDITORS,
}


def a_portal(alice: User, mona: User, audrey: User, admin: User, hosts: Hosts) -> dict[str, str]:
    """One in which each form finds something to do, of alice or in the virtual cluster nlp, which mona manages. Returns
    the names of it by those of the parts of addresses."""
    User.objects.create_user("bob", PASSWORD)
    ci = users.create_user(admin, username="ci", password="", owner="alice")
    now = timezone.now()
    nlp = VirtualCluster.objects.create(name="nlp", capacity=10, max_capacity=20)
    VirtualCluster.objects.create(name="empty", capacity=10, max_capacity=20)
    VcGrant.objects.create(vc=nlp, username="mona", manages=True)
    VcGrant.objects.create(vc=nlp, username="alice")
    User.objects.filter(pk=alice.pk).update(email="hush-email@example.org")
    for endpoint in ("unix:///spare", "unix:///nowhere"):
        hosts.add(endpoint)
    for name in ("lab", "new"):
        hosts.add(f"kubernetes://{name}/jobs").add_host("gpu-1", labels={"pool": "gpu"})
    models.Cluster.objects.create(name="lab", endpoint="kubernetes://lab/jobs", port_from=20000, port_to=20100)
    n1 = make_node("n1", gpus=4, address="127.0.0.1")
    make_node("n2", health="unreachable", health_reason="It does not answer.")
    jobs = _jobs(alice, n1)
    add_event(jobs["runs"], "job.note", "hush-event", actor="alice")
    task = Task.objects.get(job=jobs["runs"])
    Task.objects.filter(pk=task.pk).update(held_at=now, container_name="c", ports={"web": [9]})
    failed = Task.objects.get(job=jobs["over"])
    KeptImage.objects.create(node=n1, image="kept", username="alice", owner=failed.pk, size=1, until=now + SOON)
    sweeps.submit(alice, text("train", "hush-command $$lr$$ $$seed$$"))
    open_store().write("/user/alice/hush-file", [b"hush-file"], owner="alice")
    open_store().write("/user/alice/plain", [b"x"], owner="alice")
    accounts.create_token(alice, "hush-token", 30, ["jobs:read"])
    accounts.create_token(ci, "hush-ci", 30, ["jobs:read"])
    tokens.issue(alice, 60, client="laptop")
    key = accounts.add_key(alice, sshkeys.generate("ed25519", "hush-key").public)
    channel(alice, "https://hooks.example.org/hush-hook")
    told(alice)
    NoticeRow.objects.update(says="hush-notice")
    told(audrey)
    channel(mona, "https://hooks.example.org/hush-vc", name="team", vc="nlp")
    with override_settings(MAIL_SERVER=("127.0.0.1", 1)):
        mail = channel(mona, "mona@example.org", name="mail", kind="mail")
    rules = [SignInRule.objects.create(place=at, group=f"hush-rule-{at}") for at in (1, 2)]
    identity = Identity.objects.create(user=alice, provider="lab", issuer="i", subject="s", seen_at=now)
    draft = drafts.keep(alice, config_text("hush-draft"))
    template = templates.save(alice, "hush-template", config_text("t"))
    share = PageShare.objects.create(
        job=jobs["runs"], role="worker", index=0, label="web", kind="link", name="hush-link", expires_at=now + SOON
    )
    opened = {"credential": "x", "node": "n1", "container": "c", "owner": "web", "opened_at": now, "seen_at": now}
    Terminal.objects.create(username="alice", token="hush-shell", task=task.pk, where="alice/runs worker-0", **opened)
    AuditEvent.objects.create(actor="alice", action="key added", object="hush-audit")
    return {
        **{"username": "alice", "role": "worker", "index": "0", "label": "web", "path": "user/alice"},
        "wheel": wheel._made()[0],
        "token": opening.path_of_link(share).removeprefix("/s/"),
        "consent": consent.link(mail, "mona@example.org").removeprefix(consent.PATH),
        "token_id": str(alice.tokens.exclude(name="").get().pk),
        "ci_token": str(ci.tokens.get().pk),
        "key_id": str(key.pk),
        "identity_id": str(identity.pk),
        **{"rule_id": str(rules[0].pk), "second_rule": str(rules[1].pk)},
        **{"channel": "hook", "delivery": NoticeDelivery.objects.order_by("id")[0].uid},
        "draft": str(draft.pk if draft else 0),
        "template": str(template.pk),
        "replay": str(run.ask(admin, run.read_asked(begin="6h")).pk),
        "sealed": sealed.seal(f"{TEMPLATE}", f"import of users by {admin.pk}"),
    }


def _jobs(owner: User, node: Node) -> dict[str, Job]:
    """One that runs and is kept for debugging, one that has failed, and two that wait."""
    role = {"name": "worker", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "command": "hush-command"}
    ports = [{"label": "web", "beginAt": 0, "portNumber": 1}]
    hidden = {"image": "lab/hush-image", "jobEnvs": {"A": "hush-env"}, "virtualCluster": "nlp"}
    config = {**hidden, "taskRoles": [{**role, "portList": ports}]}
    states = {"runs": "RUNNING", "over": "FAILED"}
    jobs = {
        name: make_job(owner.username, name, state=state, node=node, vc="nlp", config=config)
        for name, state in states.items()
    }
    for name in ("waits", "behind"):
        more = {"extras": {"secrets": {"A": "hush-secret"}}} if name == "waits" else {}
        jobs[name] = services.submit(owner, json.dumps({**config, "jobName": name, **more}))
    return jobs


def address(route: str, names: dict[str, str], of: dict[str, str]) -> str:
    """The address of a page; ``of`` are names that are its own."""
    usual = {"jobs/": "runs", "stream/": "runs", "terminal/": "runs", "vcs/": "nlp", "nodes/": "n1"}
    usual |= {"clusters/": "lab", "notebooks/": "runs"}
    name = next((name for begin, name in usual.items() if route.startswith(begin)), "")
    known = {"name": name, **names, **{key: value.format(**names) for key, value in of.items()}}
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda part: known[part[1]], route)
