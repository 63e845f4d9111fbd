"""Serves what anybody would write: a Django as ``startproject`` makes it, with a view of REST framework that signs its
client in by a token and answers with one row of a table.

The portal's own server serves it (portal/supervisor.py). The folder that PLAIN_REST names has its SQLite file.
"""

from __future__ import annotations

import os
from typing import Any

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path

from benchmarks.portal import CONSTANT, TOKEN, served

_LIMITS: Any = {"PATIENCE": 20, "CONNECTIONS": 4096, "CONNECTIONS_PER_ADDRESS": 256, "TRUSTED_PROXIES": ()}

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="none",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": f"{os.environ['PLAIN_REST']}/rows.sqlite3",
            "CONN_MAX_AGE": None,
        }
    },
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "rest_framework",
        "rest_framework.authtoken",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    },
    **_LIMITS,
)
django.setup()

from django.contrib.auth.models import User
from django.core.management import call_command
from rest_framework.authtoken.models import Token
from rest_framework.generics import RetrieveAPIView
from rest_framework.serializers import ModelSerializer

from base.serving.bridge import Bridge


class _Row(ModelSerializer[User]):
    class Meta:
        model = User
        fields = ("id", "username", "first_name", "last_name", "email", "is_active", "date_joined", "last_login")


class _One(RetrieveAPIView[User]):
    queryset = User.objects.all()
    serializer_class = _Row
    lookup_field = "username"
    lookup_url_kwarg = "name"


urlpatterns = [path(f"{CONSTANT[1:]}/<name>", _One.as_view())]

call_command("migrate", interactive=False, verbosity=0)
Token.objects.get_or_create(key=TOKEN, user=User.objects.get_or_create(username="row")[0])

application: Any = served(Bridge(get_wsgi_application(), lambda environ: 0))
