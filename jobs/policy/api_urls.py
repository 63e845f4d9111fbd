"""Addresses of what-if below ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.policy import what_if_api

urlpatterns: list[URLPattern] = [
    path("cluster/what-if", what_if_api.WhatIfView.as_view()),
]
