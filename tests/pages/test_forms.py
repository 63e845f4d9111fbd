"""What the forms of pages send: the fields that their views read, with the value that was chosen before."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from django.test import Client

from base.models import User
from clusters.models import Node
from portal.nodes.adding.forms import PEM_FILES
from tests.builders import make_job

Browse = Callable[[User | None], Client]
NODE = {"kept", "action", "name", "kind", "ssh_to", "ssh_port", "tcp_host", "tcp_port", "socket", "address", "gpus"}
NODE |= {"gpu_type", "cpus", "memory", "port_from", "port_to", "network", "exporter", "labels"}
CLUSTER = {"kept", "action", "name", "namespace", "selector", "port_from", "port_to", "network"}
FORMS = [
    ("/login", "/login", {"next", "username", "password", "remember"}),
    ("/account/keys", "/account/keys", {"key"}),
    ("/account/tokens", "/account/tokens", {"name", "days", "scope"}),
    ("/account", "/account", {"username", "old_password", "new_password", "again"}),
    ("/add-node", "/add-node", NODE | {each for name in PEM_FILES for each in (name, f"{name}_file")}),
    ("/add-cluster", "/add-cluster", CLUSTER | {"kubeconfig", "kubeconfig_file"}),
    (
        "/jobs/alice/hello/logs",
        "/jobs/alice/hello/logs/download",
        {"task", "attempt", "stream", "since", "until", "form"},
    ),
]


class Forms(HTMLParser):
    """{action: {field: its value, or the chosen one of its options}}; forms of the same action are one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str]] = {}
        self._fields: dict[str, str] = {}
        self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._fields = self.found.setdefault(has.get("action", ""), {})
        elif tag == "option" and "selected" in has:
            self._fields[self._select] = has["value"]
        elif has.get("name", "csrfmiddlewaretoken") != "csrfmiddlewaretoken":
            self._fields[has["name"]] = has.get("value", "")
            self._select = has["name"]


def forms(client: Client, path: str) -> dict[str, dict[str, str]]:
    return Forms(client.get(path).content.decode()).found


@pytest.mark.parametrize(("path", "action", "fields"), FORMS, ids=[path for path, _, _ in FORMS])
def test_a_form_has_the_fields_that_its_view_reads(
    browse: Browse, admin: User, alice: User, path: str, action: str, fields: set[str]
) -> None:
    if "/jobs/" in path:
        make_job("alice", "hello", state="SUCCEEDED")
    client = browse(None if path == "/login" else admin)
    assert set(forms(client, path)[action]) == fields


@pytest.mark.parametrize("network", ["bridge", "host"])
def test_the_form_of_a_node_has_what_was_chosen_for_it(browse: Browse, admin: User, network: str) -> None:
    Node.objects.create(name="n1", endpoint="unix:///n1", address="n1", cpus=1, memory_mb=1000, network=network)
    path = "/nodes/n1/edit"
    assert forms(browse(admin), path)[path]["network"] == network
