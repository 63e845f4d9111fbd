"""Clients that hide nothing: Django's own lets every form pass unless it is told to look, and so would every test.

``Client`` brings no form token, as programs do. ``Browser`` sends with each form the one its page had.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpResponse
from django.test import client
from django.urls import resolve
from rest_framework import test

from portal.shared.api import repeated
from tests import document

_TOKEN = "formtoken" * 3 + "formt"


class Told:
    """Whatever it is answered, the API's document tells of."""

    def request(self, **request: Any) -> Any:
        answer = super().request(**request)  # type: ignore[misc]
        if (match := answer.wsgi_request.resolver_match) is not None:
            document.check(match.route, request["REQUEST_METHOD"], answer)
        return answer


class _Asked:
    """Answers what is known before it asks Django's handler, as the server does."""

    def __call__(self, environ: dict[str, Any]) -> Any:
        if (answer := repeated_answer(environ)) is None:
            return super().__call__(environ)  # type: ignore[misc]
        answer.wsgi_request = WSGIRequest(environ)  # type: ignore[attr-defined]
        answer.wsgi_request.resolver_match = resolve(environ["PATH_INFO"])  # type: ignore[attr-defined]
        return answer


class _Handler(_Asked, client.ClientHandler):
    pass


class _ApiHandler(_Asked, test.ForceAuthClientHandler):
    pass


def repeated_answer(environ: dict[str, Any]) -> HttpResponse | None:
    """What is answered without any middleware, if anything is."""
    known = repeated.again(environ)
    return HttpResponse(known[2], status=int(known[0][:3]), headers=dict(known[1])) if known else None


class Client(Told, client.Client):
    def __init__(self, **more: Any) -> None:
        super().__init__(enforce_csrf_checks=True, **more)
        self.handler = _Handler(enforce_csrf_checks=True)


class ApiClient(Told, test.APIClient):
    def __init__(self, **more: Any) -> None:
        super().__init__(enforce_csrf_checks=True, **more)
        self.handler = _ApiHandler(enforce_csrf_checks=True)


class Browser(Client):
    def request(self, **request: Any) -> Any:
        name = settings.CSRF_COOKIE_NAME
        if name not in self.cookies:
            self.cookies[name] = _TOKEN
        return super().request(**{settings.CSRF_HEADER_NAME: self.cookies[name].value, **request})


@contextmanager
def written(*, rows: bool = False) -> Iterator[list[str]]:
    """The statements of the block that write, for a test in which nothing, or only some table, may change; with
    ``rows`` only those that changed some."""
    writes: list[str] = []
    reads = ("SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "PRAGMA", "LOCK")

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.lstrip().upper().startswith(reads):
            done = execute(sql, params, many, context)
            if not rows or context["cursor"].rowcount or sql.startswith("INSERT"):
                writes.append(sql)
            return done
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield writes
