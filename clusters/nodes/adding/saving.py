"""Answers a form of a node or of a cluster that is to be saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, Self, TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from portal.core.errors import LongshoreError


class Form(Protocol):
    @property
    def errors(self) -> Mapping[str, str]:
        """{field: message}"""

    def refused(self, message: str) -> Self:
        """The same form with what is wrong with the whole of it."""


F = TypeVar("F", bound=Form)


def answer(
    request: HttpRequest, form: F, save: Callable[[], str], page: Callable[[F, int], HttpResponse], to: str
) -> HttpResponseBase:
    """Save the form and go on to the address ``to``; ``page`` shows a form that is refused, with a status.

    ``save`` returns the sentence that says what was done. It is not called for a form with errors."""
    if form.errors:
        return page(form, 400)
    try:
        done = save()
    except LongshoreError as error:
        return page(form.refused(error.message), error.status)
    messages.success(request, done)
    return redirect(to)
