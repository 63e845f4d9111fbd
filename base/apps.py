from __future__ import annotations

from django.apps import AppConfig


class BaseRows(AppConfig):
    """The models alone, for processes that need little more (portal.lean_settings). Their label is of the time when
    all of this was in ``portal``: names of tables and migrations stay."""

    name = "base"
    label = "portal"
    default_auto_field = "django.db.models.BigAutoField"


class BaseConfig(BaseRows):
    default = True

    def ready(self) -> None:
        from base.core.signals import first_start
        from base.files.store.state import try_store

        first_start.connect(try_store, dispatch_uid="base.files.store")
