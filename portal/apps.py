from __future__ import annotations

from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"
    label = "pages"  # "portal" is the label of base, whose tables have it in their names

    def ready(self) -> None:
        from portal import checks  # noqa: F401  registers itself
