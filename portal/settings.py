"""All settings, from the environment. A wrong value stops the start with one sentence that names the variable."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from base.core import private
from base.core.env import (
    PRIVATE,
    bind,
    bind_apart,
    bind_or_none,
    choice,
    fs_uri,
    networks,
    number,
    own_address,
    quota,
    ranges,
    secret_file,
    store_bucket,
    store_url,
    targets,
    text,
    tls_files,
    unknown,
    version,
    web_address,
    web_address_or_none,
)
from base.database import configure, pooled

if TYPE_CHECKING:
    from base.accounts.providers.config import Directory, Provider

BASE_DIR = Path(__file__).resolve().parent.parent
private.by_default()
HOME = private.home("LONGSHORE_HOME", Path(text("LONGSHORE_HOME", str(BASE_DIR / "var"))).absolute())
BIND_HOST, BIND_PORT = bind("LONGSHORE_BIND", "127.0.0.1:9186")
TLS_CERT, TLS_KEY = tls_files("LONGSHORE_TLS_CERT", "LONGSHORE_TLS_KEY")  # for https without a proxy in front
RELEASE = "0.1.0"
VERSION = version(RELEASE, text("LONGSHORE_BUILD", ""), BASE_DIR)  # 0.1.0+5789e23

SECRET_KEY = secret_file("LONGSHORE_SECRET_KEY", HOME / "secrets" / "django.key")
TOKEN_KEY = secret_file("LONGSHORE_TOKEN_KEY", HOME / "secrets" / "token.key")
# Which portal a container belongs to: two may share an engine. Not secret, the same on every host of one portal.
INSTANCE = hashlib.sha256(f"longshore instance {SECRET_KEY}".encode()).hexdigest()[:12]
ALLOWED_HOSTS = text("LONGSHORE_ALLOWED_HOSTS", "*").split(",")
# v0: whom the older clusters let in without a token. What is set by its own name wins.
IS_V0 = choice("LONGSHORE_COMPATIBILITY", "none", ("none", "v0")) == "v0"
ANONYMOUS_READ = choice("LONGSHORE_ANONYMOUS_READ", "all" if IS_V0 else "jobs", ("all", "jobs", "none"))
JOB_PRIVACY = choice("LONGSHORE_JOB_PRIVACY", "open", ("open", "owner"))  # what it means is in jobs.access
NODE_LOST_AFTER = number("LONGSHORE_NODE_LOST_AFTER", 60, least=1)
PULL_POLICY = choice("LONGSHORE_PULL", "absent", ("absent", "always"))
DOCKER_HOST = text("DOCKER_HOST", "unix:///var/run/docker.sock")
# Where users and containers reach this portal, when that is not where it listens.
PUBLIC_URL = web_address("LONGSHORE_PUBLIC_URL", own_address(BIND_HOST, BIND_PORT, secure=bool(TLS_CERT)))
IS_HTTPS = PUBLIC_URL.startswith("https://")
# Web pages of tasks are on an origin of their own (jobs/web_pages): where `up` serves them (none: nowhere), the address
# below which each page has a host name of its own, and that of all of them where they share one.
APPS_BIND = bind_or_none(
    "LONGSHORE_APPS_BIND", f"{f'[{BIND_HOST}]' if ':' in BIND_HOST else BIND_HOST}:{BIND_PORT + 1}"
)
bind_apart("LONGSHORE_BIND", (BIND_HOST, BIND_PORT), "LONGSHORE_APPS_BIND", APPS_BIND)
# Beside those of a node: ports that a config may ask for by number. The older clusters looked at none; what this portal
# and Docker listen on stays theirs, also while they are restarted.
_THEIRS = {BIND_PORT, 2375, 2376, *(APPS_BIND[1:] if APPS_BIND else ())}
FIXED_PORTS = ranges(1024, 65535, _THEIRS) if IS_V0 else ()
APPS_DOMAIN = web_address_or_none("LONGSHORE_APPS_DOMAIN")
APPS_URL = web_address_or_none("LONGSHORE_APPS_URL")
# Whose pages open where all share one host name, and so cookies: one's own alone, or those of others too.
APPS_ON_ONE_HOST = choice("LONGSHORE_APPS_ON_ONE_HOST", "own", ("own", "all"))
APPS_LINKS = choice("LONGSHORE_APPS_LINKS", "on", ("on", "none"))  # whether pages open without signing in, by a link
APPS_VISIT = number("LONGSHORE_APPS_VISIT", 43_200, least=60)  # seconds for which a page stays open to its visitor
NOTEBOOK_IMAGE = text("LONGSHORE_NOTEBOOK_IMAGE", "longshore/run.jupyter:1")  # of the page Notebooks
TENSORBOARD_IMAGE = text("LONGSHORE_TENSORBOARD_IMAGE", "longshore/run.tensorboard:1")  # shows output of ended jobs
# Who else lets people in, with what they need for it (docs/run/sign-in.md).
SIGN_IN: Mapping[str, Provider | Directory] = {}
if _providers := text("LONGSHORE_SIGN_IN", ""):
    from base.accounts.providers.config import providers  # only where some are named: it reads them with pydantic

    SIGN_IN = providers(_providers)
# Proxies in front: from there X-Forwarded-For and X-Forwarded-Proto are believed, from nowhere else
# (base.serving.proxies).
TRUSTED_PROXIES = networks("LONGSHORE_TRUSTED_PROXIES")
HSTS = number("LONGSHORE_HSTS", 31_536_000, least=0)  # seconds a browser is told to come by https alone; 0: not told
# Files: empty for a folder in HOME, webhdfs://nn1:9870;nn2:9870 or s3://bucket/prefix (see base.files.store).
STORE_URL = store_url("LONGSHORE_STORE_URL")
STORE_BUCKET = store_bucket("LONGSHORE_STORE_URL", "LONGSHORE_S3")  # None where it is none
STORE_ID: str | None = None  # of a local store; None: what the database says (base/files/store/marker.py)
STORE_USER = text("LONGSHORE_STORE_USER", "root")  # whom an HDFS takes the portal for; must be its superuser
# Exported to jobs as PAI_DEFAULT_FS_URI; where old programs want it, hdfs://namenode:8020.
DEFAULT_FS_URI = text("LONGSHORE_DEFAULT_FS_URI", fs_uri(STORE_URL, PUBLIC_URL))
WEBHDFS_TRUST = networks(
    "LONGSHORE_WEBHDFS_TRUST", PRIVATE if IS_V0 else ""
)  # from there the gateway believes user.name, as HDFS does
WEBHDFS_TRUST_ADMINS = choice("LONGSHORE_WEBHDFS_TRUST_ADMINS", "no", ("no", "yes")) == "yes"  # also an admin's name
STORE_QUOTA = quota("LONGSHORE_STORE_QUOTA")  # bytes a user's trees may hold; None: no limit (base.files.quota)
CODE_LIMIT = number("LONGSHORE_CODE_LIMIT", 200_000_000, least=1)  # bytes of a codeDir
SSH_KEY_TYPE = choice("LONGSHORE_SSH_KEY_TYPE", "ed25519", ("ed25519", "rsa"))
EVICTION_GRACE = number("LONGSHORE_EVICTION_GRACE", 30, least=1)  # seconds between TERM and KILL of an evicted job
# Jobs for which room is kept at once (jobs/planning/queue/scene.py): one of a virtual cluster at most.
RESERVATIONS = number("LONGSHORE_RESERVATIONS", 4, least=1)
DEBUG_HOLD = number("LONGSHORE_DEBUG_HOLD", 604_800, least=1)  # seconds a failed isDebug container is kept
REWIND = number("LONGSHORE_REWIND", 86_400, least=0)  # seconds for which what a failed container had is kept
REWIND_MB = number("LONGSHORE_REWIND_MB", 4096, least=1)  # of a container; one that has written more is not kept
REWIND_OPEN = number("LONGSHORE_REWIND_OPEN", 14_400, least=60)  # seconds for which one that is opened again runs
HISTORY_DAYS = number("LONGSHORE_HISTORY_DAYS", 400, least=1)  # what jobs held is kept that long after they ended
# What tasks used (jobs/metrics): on several hosts a folder that they share. Files of jobs are kept so many days, and
# take so much room together at most; then the oldest go.
METRICS_DIR = Path(text("LONGSHORE_METRICS", str(HOME / "metrics"))).absolute()
METRICS_DAYS = number("LONGSHORE_METRICS_DAYS", 400, least=1)
GPU_IDLE_AFTER = number("LONGSHORE_GPU_IDLE_AFTER", 1800, least=60)  # seconds of doing nothing, after which it is said
# From there anybody reads /metrics, which then names no user and no job; admins read it from everywhere.
METRICS_FROM = networks("LONGSHORE_METRICS_FROM", "127.0.0.0/8,::1/128")
METRICS_MB = number("LONGSHORE_METRICS_MB", 20_000, least=1)
DIAGNOSIS_RULES = text("LONGSHORE_DIAGNOSIS_RULES", str(HOME / "diagnosis.yaml"))  # docs/run/diagnosis-rules.md
TASK_DISK_MB = number("LONGSHORE_TASK_DISK_MB", 102_400, least=0)  # that a pod may write; 0: as much as there is
TASK_PIDS = number("LONGSHORE_TASK_PIDS", 4096, least=16)  # processes and threads a task may have at once
USER_TASKS = number("LONGSHORE_USER_TASKS", 100_000, least=1)  # of a user's jobs that wait or run
# Notices (jobs/notices): hosts and private networks that may be posted to, beside public ones; how long they are kept.
NOTICE_HOSTS, NOTICE_NETWORKS = targets("LONGSHORE_NOTICE_TARGETS")
MAIL_SERVER = bind_or_none("LONGSHORE_MAIL_SERVER", "none")  # host:port; without it no mail is sent
MAIL_TLS = choice("LONGSHORE_MAIL_TLS", "starttls", ("starttls", "tls", "none"))
MAIL_FROM = text("LONGSHORE_MAIL_FROM", "Longshore <longshore@localhost>")
MAIL_USER, MAIL_PASSWORD = text("LONGSHORE_MAIL_USER", ""), text("LONGSHORE_MAIL_PASSWORD", "")
NOTICE_DAYS = number("LONGSHORE_NOTICE_DAYS", 30, least=1)
TERMINALS = number("LONGSHORE_TERMINALS", 4, least=0)  # shells in containers that a user may have open at once
TERMINAL_IDLE = number("LONGSHORE_TERMINAL_IDLE", 900, least=60)  # seconds without a key after which one ends

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "base",
    "portal",  # before django_q, whose qcluster command it replaces
    "django_q",
    "axes",
    "rest_framework",
    "drf_spectacular",
    "clusters",
    "jobs",
]
MIDDLEWARE = [
    "portal.shared.api.repeated.RepeatedAnswers",
    "portal.shared.middleware.Compression",
    "portal.shared.api.transport.ApiTransport",
    "portal.shared.middleware.SecurityHeaders",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "portal.shared.viewer.ViewerMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "portal.shared.middleware.Zone",
    "portal.shared.middleware.Errors",
]
ROOT_URLCONF = "portal.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    ["portal.shared.look.templates.TemplateLoader", "django.template.loaders.app_directories.Loader"],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.shared.look.context.page",
            ],
            "builtins": ["portal.shared.look.templatetags.longshore"],
        },
    }
]

_SQLITE = f"sqlite:///{HOME / 'longshore.sqlite3'}"
DATABASES = {"default": configure(text("DATABASE_URL", _SQLITE))}
# Where DATABASE_URL is a pooler in transaction mode: the server itself, for sessions that one process needs for itself.
_DIRECT = text("LONGSHORE_DATABASE_DIRECT", "")
DIRECT = configure(_DIRECT) if _DIRECT else {}
if DIRECT:
    DATABASES["default"] = pooled(DATABASES["default"])
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {
    "default": {"BACKEND": "base.hosts.host_cache.HostCache", "LOCATION": str(HOME / "cache")},
    # django-q2 writes a report twice a second, which nobody reads.
    "reports": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
}

AUTH_USER_MODEL = "portal.User"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
if any(each.kind == "LDAP" for each in SIGN_IN.values()):
    AUTHENTICATION_BACKENDS.append("portal.sign_in.backend.DirectoryBackend")
PASSWORD_HASHERS = [
    "base.accounts.passwords.PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 6}},
]
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 5 / 60  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
SILENCED_SYSTEM_CHECKS = ["axes.W002"]  # its middleware would put a page of its own in place of our LockedOut
CSRF_FAILURE_VIEW = "portal.shared.error_pages.forbidden"
# Over https no other host of the domain, and no script, can set or change them: web pages of tasks may be on one.
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = (
    f"{'__Host-' if IS_HTTPS else ''}{name}" for name in ("longshore", "csrftoken")
)
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]  # a browser's Origin, when a proxy that is not believed speaks http with us
FILE_UPLOAD_PERMISSIONS = 0o600  # of the collected static files too: this process serves them itself
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
FILE_UPLOAD_TEMP_DIR = str(private.folder("LONGSHORE_HOME", HOME / "uploads"))
# The portal and its clients: see base.serving.connection.
PATIENCE = number("LONGSHORE_PATIENCE", 20, least=1)  # seconds a client may keep us waiting
WEB_PROCESSES = number("LONGSHORE_WEB_PROCESSES", 1, least=1)  # `up` starts them; each keeps to its share of the limits
CONNECTIONS = -(-number("LONGSHORE_CONNECTIONS", 4096, least=16) // WEB_PROCESSES)
# Pages and logs that guests watch live.
GUEST_STREAMS = -(-number("LONGSHORE_GUEST_STREAMS", 50, least=0) // WEB_PROCESSES)
CONNECTIONS_PER_ADDRESS = -(-number("LONGSHORE_CONNECTIONS_PER_ADDRESS", 256, least=8) // WEB_PROCESSES)

STATIC_URL = "/static/"
STATIC_ROOT = HOME / "static"
STATICFILES_DIRS = [BASE_DIR / "static", private.folder("LONGSHORE_HOME", HOME / "joined")]
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]  # the apps' own files are not needed
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "portal.shared.look.static_files.Storage"},
}
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = os.environ.get("TZ") or "UTC"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.shared.api.auth.BearerAuthentication",
        "portal.shared.api.auth.PageSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["portal.shared.api.scopes.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "portal.shared.api.answers.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "portal.shared.api.openapi.Schema",
    "UNAUTHENTICATED_USER": "base.accounts.viewer.Guest",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Longshore",
    "VERSION": RELEASE,
    "OAS_VERSION": "3.1.0",
    "PREPROCESSING_HOOKS": ["portal.shared.api.openapi.once"],
    "POSTPROCESSING_HOOKS": ["portal.shared.api.openapi.plain_routes"],
    "SORT_OPERATIONS": False,
}

# At least once, never lost: an order is a row of the same transaction as the state it follows from
# (jobs/scheduling/orders.py). Orders return at once (their work goes to threads of the worker), so a few processes and
# a long retry are enough.
Q_CLUSTER = {
    "name": "longshore",
    "cache": "reports",
    "broker_class": "base.wakes.broker.WakingBroker",
    "orm": "default",
    "workers": 1,
    "queue_limit": 50,
    "bulk": 20,
    "poll": 0,
    "timeout": 60,
    "retry": 150,
    "ack_failures": True,
    "max_attempts": 3,
    "catch_up": False,
    "save_limit": -1,
    "recycle": 1_000_000,
    "log_level": "WARNING",
}
LOGGING_CONFIG = "base.core.logs.configure"
LOGGING = {"level": choice("LONGSHORE_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))}

for _sentence in unknown():
    print(f"longshore: {_sentence}", file=sys.stderr, flush=True)  # noqa: T201
