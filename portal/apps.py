from __future__ import annotations

from django.apps import AppConfig


class PortalRows(AppConfig):
    """The models alone, for processes that need little more (portal.lean_settings)."""

    name = "portal"
    default_auto_field = "django.db.models.BigAutoField"


class PortalConfig(AppConfig):
    name = "portal"
    default = True
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal import checks  # noqa: F401  registers itself
        from portal.core.signals import first_start
        from portal.files.store.first_start import try_store

        first_start.connect(try_store, dispatch_uid="portal.files.store")
