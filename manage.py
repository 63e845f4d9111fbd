#!/usr/bin/env python3
from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    lean = sys.argv[1:2] == ["runsampler"]  # it needs few of the apps, and takes half the memory
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.lean_settings" if lean else "portal.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"manage.py: {error}")
