"""The process that serves the pages' own origin: ``uvicorn jobs.web_apps.serving.asgi:application``; ``up`` starts it.

It has nothing of the portal's pages. Sessions are read there only to see whether they still live.
"""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

import django

django.setup()

from jobs.web_apps.serving.application import Application  # noqa: E402
from portal.web.serving.proxies import believing  # noqa: E402

application = believing(Application())
