"""The page of all nodes: one page of them at a time, and each of those in trouble is found at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape
from playwright.sync_api import expect

from base.models import User
from clusters.models import Cluster, Node
from portal.lists.home import page as home
from portal.nodes import rows
from portal.nodes.listing import MOST_MARKS
from portal.nodes.views import LiveNodes
from tests.builders import make_node
from tests.pages.conftest import PHONE, SCREEN, Tab

Browse = Callable[[User | None], Client]
Count = Callable[[Callable[[], object]], int]
MARK = {"gpus": {"sentence": "Node n-44 hands out no GPUs.", "since": "2026-11-20T10:00:00+00:00", "until": ""}}


@pytest.fixture
def many(db: None) -> None:
    """45 nodes, of which the last ones are in trouble."""
    troubles: dict[int, dict[str, Any]] = {
        41: {"status": "draining"},
        42: {"status": "cordoned"},
        43: {"health": "unreachable", "health_reason": "It does not answer."},
        44: {"marks": MARK},
    }
    for number in range(45):
        make_node(f"n-{number:02d}", gpus=2, address=f"10.0.0.{number}", **troubles.get(number, {}))


def names(client: Client, url: str) -> list[str]:
    return [line.view.name for line in client.get(url).context["nodes"]]


def test_a_page_has_some_and_leads_to_the_next_and_back(browse: Browse, alice: User, many: None) -> None:
    client, url, found = browse(alice), "/nodes?limit=20", list[list[str]]()
    while url:
        page = client.get(url).context
        found.append([line.view.name for line in page["nodes"]])
        url = page["older"]
    assert [len(some) for some in found] == [20, 20, 5]
    assert [name for some in found for name in some] == [f"n-{number:02d}" for number in range(45)]
    back = page["newer"]
    assert names(client, back) == found[1]
    assert names(client, client.get(back).context["newer"]) == found[0]
    assert client.get("/nodes?limit=20").context["newer"] == ""
    assert "No more nodes this way" in client.get("/nodes?after=z").content.decode()


def test_what_is_said_of_all_is_of_all(browse: Browse, alice: User, many: None) -> None:
    response = browse(alice).get("/nodes?limit=20")
    page, text = response.context, response.content.decode()
    assert (page["number"], page["all_gpus"], page["free_gpus"], page["out_gpus"]) == (45, 90, 82, 4)
    assert {facet.state: facet.number for facet in page["facets"]} == {
        "": 45, "active": 42, "cordoned": 1, "draining": 1, "unreachable": 1
    }  # fmt: skip
    assert "1 unreachable" in text and "Node n-44 hands out no GPUs." in text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("state=draining", ["n-41"]),
        ("state=cordoned", ["n-42"]),
        ("state=unreachable", ["n-43"]),
        ("keyword=N-4", ["n-40", "n-41", "n-42", "n-43", "n-44"]),
        ("keyword=10.0.0.7", ["n-07"]),
        ("keyword=n-4&state=draining", ["n-41"]),
        ("keyword=nobody", []),
    ],
)
def test_it_shows_those_that_are_asked_for(
    browse: Browse, alice: User, many: None, query: str, shown: list[str]
) -> None:
    assert names(browse(alice), f"/nodes?{query}") == shown


def test_one_that_its_cluster_closes_counts_as_cordoned(browse: Browse, alice: User) -> None:
    cluster = Cluster.objects.create(name="lab", port_from=30_000, port_to=31_000)
    make_node("lab/n1", cluster=cluster, closed="A taint keeps tasks away.")
    page = browse(alice).get("/nodes?state=cordoned").context
    assert [(line.view.name, line.state) for line in page["nodes"]] == [("lab/n1", "cordoned")]
    assert [each.name for each in page["clusters"]] == ["lab"]
    text = " ".join(browse(alice).get("/nodes").content.decode().split())
    assert "Kubernetes, 1 node, never asked" in text, "nobody has asked it yet"


def test_what_it_does_not_understand_it_leaves_out_and_says_so(browse: Browse, alice: User, many: None) -> None:
    response = browse(alice).get("/nodes?state=broken&limit=3&colour=red")
    assert len(response.context["nodes"]) == 45 and response.context["query"].odd == ["state", "colour"]
    assert "does not understand" in response.content.decode()
    assert "No node matches these filters" in browse(alice).get("/nodes?keyword=nobody").content.decode()


def test_many_nodes_are_drawn_and_asked_for_no_more_than_few(
    browse: Browse, alice: User, count_queries: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    line = rows._line
    monkeypatch.setattr(rows, "_line", lambda view, *rest: drawn.append(view.name) or line(view, *rest))  # type: ignore[func-returns-value]
    client = browse(alice)
    found = []
    for number in (3, 120):
        for at in range(Node.objects.count(), number):
            make_node(f"n-{at:03d}", gpus=1, health="unreachable" if at % 2 else "ready")
        for url in ("/nodes", "/"):
            client.get(url)
        drawn.clear()
        queries = count_queries(lambda: client.get("/nodes"))
        of_nodes = len(drawn)
        found.append((queries, of_nodes, count_queries(lambda: client.get("/")), len(drawn) - of_nodes))
    (few, _, few_home, _), (all_, of_nodes, all_home, of_home) = found
    assert (all_, all_home) == (few, few_home)
    assert (of_nodes, of_home) == (50, home.MOST_NODES + home.MOST)


def test_the_live_page_is_drawn_as_it_was_asked_for(alice: User, many: None, rf: RequestFactory) -> None:
    request = rf.get("/stream/page?page=nodes&v=1&state=draining")
    request.user = alice
    parts = LiveNodes(request).parts()
    assert set(parts) == {"nodes", "nodes-facets"}
    assert "n-41" in parts["nodes"] and "n-40" not in parts["nodes"]


def test_no_more_names_are_read_than_a_page_has(browse: Browse, alice: User, many: None) -> None:
    client = browse(alice)
    for url in ("/nodes?limit=20", "/nodes?limit=20&after=n-03", "/nodes?limit=20&before=n-30&state=active"):
        with CaptureQueriesContext(connection) as asked:
            client.get(url)
        of_page = [each["sql"] for each in asked if "clusters_node" in each["sql"] and "LIMIT 21" in each["sql"]]
        assert len(of_page) == 1, url


@pytest.mark.parametrize(
    "query", ["state=active&limit=20&after=n-44", "keyword=n-4&after=n-44", "keyword=n&before=n-00"]
)
def test_a_page_whose_nodes_are_gone_leads_to_the_others_that_match(
    browse: Browse, alice: User, many: None, query: str
) -> None:
    """As where the last node of it was removed while somebody looked."""
    response = browse(alice).get(f"/nodes?{query}")
    text = response.content.decode()
    assert "No more nodes this way" in text and "No node matches" not in text
    first = response.context["query"].address()
    assert f'href="{escape(first)}"' in text and names(browse(alice), first)


def test_a_registry_that_all_nodes_miss_makes_no_long_page(browse: Browse, alice: User) -> None:
    for number in range(60):
        make_node(f"n-{number:02d}", marks=MARK)
    text = browse(alice).get("/nodes?limit=20").content.decode()
    assert text.count("Node n-44 hands out no GPUs.") == MOST_MARKS and f"and {60 - MOST_MARKS} more" in text


def test_nodes_that_come_and_go_meanwhile_are_neither_shown_twice_nor_left_out(
    browse: Browse, alice: User, many: None
) -> None:
    client = browse(alice)
    page = client.get("/nodes?limit=20").context
    Node.objects.filter(name__in=["n-05", "n-19", "n-25"]).delete()
    make_node("n-00a")
    make_node("n-30a")
    second = client.get(page["older"]).context
    shown = [line.view.name for line in second["nodes"]]
    assert (shown[0], shown[-1], len(shown)) == ("n-20", "n-39", 20) and "n-30a" in shown and "n-25" not in shown
    assert names(client, second["newer"])[-1] == "n-18"


@pytest.mark.parametrize(
    "query",
    [
        "after=%00",
        "before=%ED%A0%80&after=%FF",
        "limit=" + "9" * 5000,
        "limit=-1&limit=2e400",
        "state=active&state=%27%22%3E%3Cscript%3E",
        "keyword=%25_%5C%27",
        "keyword=%00",
        "keyword=" + "n" * 256,
        "keyword=%F0%9F%98%80",
        "after=" + "n" * 256 + "&before=lab/n.1",
        "page=job&v=1&user=x&top=3",
    ],
)
def test_no_query_breaks_it(browse: Browse, alice: User, many: None, query: str, rf: RequestFactory) -> None:
    assert browse(alice).get(f"/nodes?{query}").status_code in (200, 400)
    request = rf.get(f"/stream/page?page=nodes&v=1&{query}")
    request.user = alice
    assert LiveNodes(request).parts()


@pytest.mark.browser
def test_it_is_used_without_a_mouse(tab: Callable[..., Tab], alice: User, many: None) -> None:
    page = tab(alice).open("/nodes?limit=20")
    page.locator("#older").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tbody th").first).to_contain_text("n-20")
    page.locator("#facet-unreachable").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tbody th")).to_have_text(["n-43"])
    expect(page.locator("#facet-unreachable")).to_have_attribute("aria-current", "true")
    page.locator("#facet-all").click()
    expect(page.locator("tbody th").first).to_contain_text("n-00")
    page.locator("#by-name").fill("n-07")
    page.locator("#by-name").press("Enter")
    expect(page.locator("tbody th")).to_have_text(["n-07"])


@pytest.mark.browser
def test_a_page_of_many_fits_and_is_accessible(tab: Callable[..., Tab], alice: User, many: None) -> None:
    shown = tab(alice)
    for path, dark in (("/nodes?limit=20&after=n-19", PHONE), ("/nodes?state=unreachable&keyword=n-9", SCREEN)):
        shown.check_everywhere(path, dark=dark)


@pytest.mark.browser
def test_names_have_room_on_the_home_page_beside_nodes_of_many_gpus(tab: Callable[..., Tab], alice: User) -> None:
    for number, name in enumerate(("a-long-name-" * 5, "lab/host-1.example.internal", "gpu-07")):
        state = {"health": "unreachable", "health_reason": "It does not answer."} if number else {}
        node = make_node(name, gpus=16, **state)
        node.gpus = [{**gpu, "type": "A100-SXM4-80GB"} for gpu in node.gpus]
        node.save()
    shown = tab(alice)
    shown.check_everywhere("/", dark=PHONE)
    for width in (PHONE, 1000, SCREEN):
        shown.page.set_viewport_size({"width": width, "height": 800})
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        short = shown.page.locator(".ls-free th").filter(has_text="gpu-07")
        assert short.evaluate("cell => cell.scrollWidth <= cell.clientWidth"), f"at {width} the name is cut"
        lines = "cell => { const all = new Range(); all.selectNodeContents(cell); return all.getClientRects().length }"
        assert short.evaluate(lines) == 1, f"at {width} the name breaks"
