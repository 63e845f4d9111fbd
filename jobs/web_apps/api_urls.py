"""Addresses of the web pages of a job below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.web_apps import api

_PAGE = "services/<str:role>/<int:index>/<str:label>"

urlpatterns: list[URLPattern] = [
    each
    for root in ("jobs/<str:job>", "user/<str:username>/jobs/<str:job>")
    for each in (
        path(f"{root}/services", api.Services.as_view()),
        path(f"{root}/{_PAGE}/ticket", api.Ticket.as_view()),
        path(f"{root}/{_PAGE}/links", api.Link.as_view()),
        path(f"{root}/{_PAGE}/shares/<str:kind>/<str:name>", api.Share.as_view()),
        path(f"{root}/tensorboard", api.ServeTensorBoard.as_view()),
    )
]
