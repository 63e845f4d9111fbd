"""``/files`` is the root of the store, ``/files/<path>`` a folder or a file. What is done there is in ``?do=``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.files.page import views

urlpatterns: list[URLPattern] = [
    path("files", views.files, name="files"),
    path("files/<path:path>", views.files, name="files-path"),
]
