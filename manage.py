#!/usr/bin/env python3
from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    name = os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    if sys.argv[1:2] == ["runsampler"] and name == "portal.settings":  # it needs few of the apps, and half the memory
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.lean_settings"
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"manage.py: {error}")
