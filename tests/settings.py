"""The portal's own settings in a folder of its own, with a password hash that costs nothing.

DATABASE_URL=postgres stands for a private PostgreSQL that lives as long as this process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

HOME_OF_TESTS = tempfile.mkdtemp(prefix="longshore-tests-")
atexit.register(shutil.rmtree, HOME_OF_TESTS, ignore_errors=True)
os.environ["LONGSHORE_HOME"] = HOME_OF_TESTS
os.environ["TZ"] = "UTC"  # wherever the machine is
os.environ.setdefault("LONGSHORE_LOG_LEVEL", "WARNING")
if os.environ.get("DATABASE_URL") == "postgres":
    from tests.bed.postgres_bed import postgres

    private = postgres()
    os.environ["DATABASE_URL"] = private.__enter__()
    atexit.register(private.__exit__, None, None, None)

from portal.settings import *  # noqa: E402, F403
from portal.settings import DATABASES, STORAGES  # noqa: E402

os.umask(0o022)  # what tests start, such as a PostgreSQL of another user, is no process of the portal

STORE_ID = ""  # a store without a marker: most tests have no ``manage.py up`` before them
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if DATABASES["default"]["ENGINE"].endswith("sqlite"):
    # A file, not memory: threads and processes of a test must see the same rows.
    DATABASES["default"]["TEST"] = {"NAME": f"{HOME_OF_TESTS}/test.sqlite3"}
else:
    # A test is one transaction and takes its time between two queries. What starts as a process has the portal's limit.
    DATABASES["default"]["OPTIONS"]["options"] += " -c idle_in_transaction_session_timeout=0"
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
WHITENOISE_AUTOREFRESH = True
WHITENOISE_USE_FINDERS = True
