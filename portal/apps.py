from __future__ import annotations

from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal import checks  # noqa: F401  registers itself
        from portal.signals import first_start
        from portal.store.first_start import try_store

        first_start.connect(try_store, dispatch_uid="portal.store")
