"""The API's document is complete and true, and a machine that reads it finds no fault with the API."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from django.core.management import call_command
from django.urls import URLPattern, URLResolver, get_resolver
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from pydantic import BaseModel
from referencing import Registry, Resource
from rest_framework.test import APIClient
from typing_extensions import is_typeddict

from base.models import User
from portal.docs import api as docs
from portal.shared.api.openapi import document
from tests.http import Client

APPS = ("portal", "jobs", "clusters", "base")


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return document()


def operations(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for methods in schema["paths"].values() for each in methods.values()]


def test_it_is_valid_and_made_without_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonschema, "validate", validate)
    call_command("spectacular", validate=True, fail_on_warn=True)
    assert capsys.readouterr().err == ""


def validate(instance: Any, schema: dict[str, Any]) -> None:
    """As jsonschema's own, which goes through the whole specification again at each of its thousand references."""
    known: Registry[Any] = Registry().with_resource(schema["$id"], Resource.from_contents(schema)).crawl()
    kind = validator_for(schema)
    kind.check_schema(schema)
    if fault := best_match(kind(schema, registry=known).iter_errors(instance)):
        raise fault


def test_it_is_at_its_address(api: Callable[..., APIClient]) -> None:
    answer = api(None).get("/api/schema/")
    assert answer.status_code == 200
    assert b"openapi: 3.1.0" in answer.content


def test_it_is_made_once_for_each_format(api: Callable[..., APIClient], monkeypatch: pytest.MonkeyPatch) -> None:
    first = api(None).get("/api/schema/?format=json")
    monkeypatch.setattr(docs.openapi, "document", None)  # whoever makes it again fails
    again = api(None).get("/api/schema/?format=json")
    assert again.content == first.content and json.loads(first.content)["openapi"] == "3.1.0"
    same = api(None).get("/api/schema/?format=json", headers={"If-None-Match": first["ETag"]})
    assert (same.status_code, same.content) == (304, b"")


def test_no_two_operations_have_one_name(schema: dict[str, Any]) -> None:
    names = [each["operationId"] for each in operations(schema)]
    assert sorted(set(names)) == sorted(names)


def test_every_operation_says_what_it_does_and_what_it_answers(schema: dict[str, Any]) -> None:
    assert [each["operationId"] for each in operations(schema) if not each.get("summary")] == []
    shapeless = [
        each["operationId"]
        for each in operations(schema)
        for status, answer in each["responses"].items()
        if not answer.get("content") and status != "302"
    ]
    assert shapeless == []


def test_every_body_has_a_type_that_makers_of_clients_know(schema: dict[str, Any]) -> None:
    """``openapi-python-client`` left out ``*/*``, ``text/plain`` and a multipart body, which nobody reads."""
    named = {kind for each in operations(schema) for kind in each.get("requestBody", {}).get("content", {})}
    assert named == {"application/json", "application/x-www-form-urlencoded"}


def test_every_route_of_v1_is_in_it(schema: dict[str, Any]) -> None:
    routes = {path for path in addresses(get_resolver().url_patterns) if path.startswith("/api/v1/")}
    assert routes
    assert routes - schema["paths"].keys() == set()


def test_it_knows_no_route_twice(schema: dict[str, Any]) -> None:
    assert [path for path in schema["paths"] if path.startswith("/rest-server")] == []


def test_the_page_of_it_needs_no_script_and_shows_every_operation(browse: Callable[..., Client]) -> None:
    answer = browse(None).get("/api/docs/")
    text = answer.content.decode()
    assert answer.status_code == 200
    assert "<script>" not in text
    assert re.search(r"\son\w+=", text) is None
    assert text.count("<details id=") == len(operations(document()))
    assert "jobStatus.retryDetails.user" in text


def test_it_says_how_to_sign_in(schema: dict[str, Any]) -> None:
    assert schema["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert schema["paths"]["/api/v1/token"]["post"].get("security") is None


def test_it_tells_models_apart_that_have_one_name() -> None:
    """Components are named by their class alone."""
    ours = [vars(module) for name, module in sys.modules.items() if name.split(".")[0] in APPS]
    typed = {each for names in ours for each in names.values() if isinstance(each, type) and is_typeddict(each)}
    shapes = [each for each in {*subclasses(BaseModel), *typed} if each.__module__.split(".")[0] in APPS]
    named = {each.__name__: each for each in shapes}
    twice = [each for each in shapes if named[each.__name__] is not each and is_shown(each)]
    assert twice == []


def test_a_guest_is_told_which_statuses_he_can_meet(schema: dict[str, Any], api: Callable[..., APIClient]) -> None:
    told = schema["paths"]["/api/v1/user/{username}/jobs"]["post"]["responses"]
    assert {"201", "400", "401", "403", "404", "409", "413", "429"} == set(told)
    assert str(api(None).post("/api/v1/user/alice/jobs", {}, format="json").status_code) in told


def test_an_admin_is_known_by_his_token(schema: dict[str, Any], api: Callable[..., APIClient], admin: User) -> None:
    assert str(api(admin).get("/api/v1/nodes").status_code) in schema["paths"]["/api/v1/nodes"]["get"]["responses"]


def test_a_body_is_shown_with_the_limits_by_which_it_is_checked(schema: dict[str, Any]) -> None:
    shapes = schema["components"]["schemas"]
    assert shapes["VcRequest"]["required"] == ["vcCapacity"]
    assert shapes["VcRequest"]["properties"]["description"]["maxLength"] == 255
    for model, field in (("NewUser", "password"), ("PasswordChange", "newPassword"), ("TokenRequest", "password")):
        shown = shapes[model]["properties"][field]
        assert (shown["minLength"], shown["maxLength"]) == (6, 1024)
    name = shapes["NodeChange"]["properties"]["name"]  # null is refused, so it is not offered
    assert (name["type"], name["pattern"]) == ("string", "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    assert shapes["StopValue"]["properties"]["value"]["const"] == "STOP"


def is_shown(model: type) -> bool:
    return model.__module__.rsplit(".", 1)[-1] in {"shapes", "serializers", "openapi"} or "api" in model.__module__


def subclasses(model: type) -> list[type]:
    return [each for child in model.__subclasses__() for each in (child, *subclasses(child))]


def addresses(patterns: list[Any], before: str = "/") -> list[str]:
    found = []
    for each in patterns:
        path = before + str(each.pattern)
        if isinstance(each, URLResolver):
            found += addresses(each.url_patterns, path)
        elif isinstance(each, URLPattern):
            found.append(re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path))
    return found


def test_many_may_ask_for_it_right_after_a_start() -> None:
    """Each in a thread, as a server does, in a process that has made no document yet."""
    asked = """
import django; django.setup()
from concurrent.futures import ThreadPoolExecutor
from django.test import RequestFactory
from portal.docs import api as docs
from portal.shared.api.openapi import document
json = RequestFactory().get("/api/schema?format=json")
ask = [docs._groups, lambda: docs.DocumentView.as_view()(json).status_code] * 3
with ThreadPoolExecutor(6) as threads:
    found = [each.result() for each in [threads.submit(one) for one in ask]]
assert found[1::2] == [200] * 3, found
"""
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    told = subprocess.run([sys.executable, "-c", asked], env=environ, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-2000:]
