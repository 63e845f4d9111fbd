"""The portal's settings, and probes in its processes: see benchmarks/trace/probes.py."""

from portal.settings import *  # noqa: F403
from portal.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "benchmarks.trace.probes.Probes"]
