"""Asks before what cannot be undone: with a page of its own, or with the inside of a dialog when a script asks."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme


def ask_to_confirm(request: HttpRequest, otherwise: str, **page: Any) -> HttpResponse:
    """``page``: title, effect, verb, verb_icon and keep (the safe button); ``sure`` False offers the safe button only.
    Both buttons lead to the page before, or to ``otherwise`` when that is not known."""
    is_dialog = request.headers.get("HX-Request") == "true"
    target = return_url(request, otherwise)
    template = "components/_confirm.html" if is_dialog else "confirm.html"
    known = {"action": request.path, "is_dialog": is_dialog, "back": target, "next": target, "sure": True}
    return render(request, template, {**known, **page})


def question(
    title: str, effect: str, verb: str = "", icon: str = "trash", keep: str = "Back", css: str = "", **fields: str
) -> dict[str, Any]:
    """What ``ask`` shows. Without a verb it only tells why something cannot be done. ``fields`` are sent with a yes."""
    known = {"title": title, "effect": effect, "keep": keep, "sure": bool(verb)}
    return {**known, "verb": verb, "verb_icon": icon, "verb_class": css, "fields": fields}


def return_url(request: HttpRequest, otherwise: str) -> str:
    """The page on which the question was asked: the form's ``next``, else the page before."""
    for target in (request.POST.get("next"), request.headers.get("HX-Current-URL"), request.headers.get("Referer")):
        if target and leads_here(request, target):
            return target
    return otherwise


def leads_here(request: HttpRequest, target: str) -> bool:
    """Whether a redirect there leads to a page of ours. Without a first slash it may be the name of a view."""
    is_ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, request.is_secure())
    return is_ours and target.startswith(("/", "http:", "https:"))
