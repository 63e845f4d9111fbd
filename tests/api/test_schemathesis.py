"""A machine reads the API's document and asks whatever it allows, and what it does not, as guest, user and admin.

No request ends in a 500, and every answer is one that the document tells of: its status, its type and its shape.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from base.accounts import tokens
from base.models import User
from clusters.engines import schemes
from clusters.engines.runtime import FaultReason, RuntimeFault
from clusters.models import Node
from tests.submitting import submitted

CHECKS = [
    checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# What is behind them is behind /user/:username/jobs too, where every example is tried.
TWINS = r"^/api/v1/jobs/\{job\}"
# What is there, what is not, and what is hardly a name at all.
NAMES = {
    "username": ["alice", "admin", "nobody", "a~b"],
    "user": ["alice", "admin", "nobody"],
    "job": ["hello", "alice~hello", "gone", "hello world", "%00"],
    "vc": ["default", "vision", "no vc"],
    "name": ["gpu-01", "gpu-02", "-"],
    "group": ["default", "nobody"],
    "groupname": ["default", "nobody"],
    "role": ["worker", "ps"],
    "index": [0, 1, 99999999999],
    "attempt": [1, 2],
    "number": ["1", "2", "one"],
    "stream": ["stdout", "stderr", "user.pai.stdout", "nothing"],
}


def known_names(document: dict[str, Any]) -> dict[str, Any]:
    """The document with names in its paths that this portal has: random ones would meet nothing but 404."""
    document = copy.deepcopy(document)
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path" and parameter["name"] in NAMES:
                    parameter["schema"] = {"enum": NAMES[parameter["name"]]}
    return document


# Other methods than those of the document are tried on every route by test_every_route.py and test_fuzz.py.
CONFIG = SchemathesisConfig.from_dict({"phases": {"coverage": {"unexpected-methods": []}}})
ONE_OF = 5  # of the cases that try each value at its limits: they are thousands
CASES = itertools.count()
schema = schemathesis.openapi.from_dict(
    known_names(SchemaGenerator().get_schema(request=None, public=True)), config=CONFIG
)
schema.app = get_wsgi_application()


@pytest.fixture
def one_connection(db: None) -> Iterator[None]:
    """A request does not end the transaction of the test, as with Django's own client."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def everybody(one_connection: None, admin: User, alice: User) -> Iterator[list[dict[str, str]]]:
    """The headers of a guest, a user and an admin; and a portal with a node and a job, whose engines nobody reaches."""

    def connect(endpoint: str, _: Any) -> Any:
        raise RuntimeFault(f"Nothing listens at {endpoint}.", reason=FaultReason.UNREACHABLE)

    schemes.set_engine_factory(connect)
    sizes = {"cpus": 8, "memory_mb": 16000, "gpus": [{"id": "0", "type": "A100"}]}
    Node.objects.create(name="gpu-01", endpoint="tcp://gpu-01:2376", address="10.0.0.1", **sizes)
    submitted(alice, "hello")
    plain = {"Accept-Encoding": "identity"}
    yield [plain, *({**plain, "Authorization": f"Bearer {tokens.issue(user, 3600)}"} for user in (alice, admin))]
    schemes.set_engine_factory(None)


def askers(case: schemathesis.Case, everybody: list[dict[str, str]]) -> list[dict[str, str]]:
    """All three, or for a case at the limits of a value one of them in turn, or nobody."""
    if case.meta is None or case.meta.phase.name is not TestPhase.COVERAGE:
        return everybody
    turn, rest = divmod(next(CASES), ONE_OF)
    return [] if rest else [everybody[turn % 3]]


@schema.exclude(path_regex=TWINS).parametrize()
@settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_it_answers_only_what_its_document_tells(case: schemathesis.Case, everybody: list[dict[str, str]]) -> None:
    for headers in askers(case, everybody):
        with transaction.atomic():
            case.call_and_validate(headers=headers, checks=CHECKS)
            transaction.set_rollback(True)
