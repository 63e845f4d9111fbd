"""Addresses of the tab of web pages."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.web_apps import views

_WEB = "jobs/<str:username>/<str:name>/web"

urlpatterns: list[URLPattern] = [
    path(_WEB, views.tab, name="job-web"),
    path(f"{_WEB}/pages", views.part, name="job-web-pages"),
    path(f"{_WEB}/share", views.share, name="job-web-share"),
    path(f"{_WEB}/serve", views.serve, name="job-web-serve"),
    path("s/<str:token>", views.open_link, name="job-web-link"),
    path(f"{_WEB}/<str:role>/<int:index>/<str:label>", views.open_page, name="job-web-open"),
]
