"""Says what of a migration the release before would not survive, or PostgreSQL would rewrite a table for."""

from __future__ import annotations

from django.db import models
from django.db.migrations import operations as ops
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.expressions import Value
from django.db.models.fields import NOT_PROVIDED

_HARMLESS = (
    *(ops.CreateModel, ops.AlterModelOptions, ops.AlterModelManagers, ops.AddIndex, ops.RemoveIndex, ops.RenameIndex),
    *(ops.RemoveConstraint, ops.RunPython, ops.RunSQL),
)


def objection(operation: Operation, app: str, before: ProjectState, new: set[tuple[str, str]]) -> str:
    """Empty when it only adds. ``new``: models (app, name) that the release before does not have."""
    if isinstance(operation, _HARMLESS):
        return ""
    if isinstance(operation, ops.SeparateDatabaseAndState):
        parts = (*operation.database_operations, *operation.state_operations)
        return next((said for each in parts if (said := objection(each, app, before, new))), "")
    name = str(getattr(operation, "model_name", "")).lower()
    if (app, name) in new:
        return ""
    what = f"{type(operation).__name__} {name} {getattr(operation, 'name', '')}"
    if isinstance(operation, ops.AddField):
        return _of_new(operation.field, what)
    if isinstance(operation, ops.AlterField):
        return _of_changed(before.models[app, name].fields[operation.name], operation.field, what)
    if isinstance(operation, ops.AddConstraint):
        return f"{what}: the release before does not keep to it"
    return "" if _only_orders(operation, app, before) else f"{what}: the release before needs what it takes away"


def _only_orders(operation: Operation, app: str, before: ProjectState) -> bool:
    """Whether it puts the columns of models, which all stay as they were, into another order, and does nothing else."""
    after = before.clone()
    operation.state_forwards(app, after)
    columns = [{key: list(model.fields.items()) for key, model in state.models.items()} for state in (before, after)]
    were, are = ({key: dict(fields) for key, fields in each.items()} for each in columns)
    return were == are and columns[0] != columns[1]


def _of_new(field: models.Field, what: str) -> str:
    if field.many_to_many or field.null:
        return ""
    if field.db_default is NOT_PROVIDED:
        return f"{what}: the release before writes no value; give it db_default or null"
    is_constant = isinstance(field.db_default, Value) or not hasattr(field.db_default, "resolve_expression")
    return "" if is_constant else f"{what}: PostgreSQL rewrites the table for a default that is computed"


def _of_changed(old: models.Field, new: models.Field, what: str) -> str:
    if old.null and not new.null:
        return f"{what}: the release before writes nulls"
    if old.get_internal_type() != new.get_internal_type():
        return f"{what}: PostgreSQL rewrites the table for another type"
    if (new.max_length or 0) < (old.max_length or 0):
        return f"{what}: the release before writes longer texts"
    return f"{what}: the release before writes doubles" if new.unique and not old.unique else ""
