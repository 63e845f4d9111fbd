"""Addresses of what-if and replay below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.policy import replay_api, what_if_api

urlpatterns: list[URLPattern] = [
    path("cluster/what-if", what_if_api.WhatIfView.as_view()),
    path("cluster/replay", replay_api.Replays.as_view()),
    path("cluster/replay/<int:id>", replay_api.OneReplay.as_view()),
]
