"""The process that serves the pages' own origin, ``uvicorn portal.web_pages.serving.asgi:application``, which ``up``
starts.

It has nothing of the portal's pages. Sessions are read there only to see whether they still live.
"""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

import django

django.setup()

from base.serving.connection import trusting_proxies  # noqa: E402
from portal.web_pages.serving.application import Application  # noqa: E402

application = trusting_proxies(Application())
