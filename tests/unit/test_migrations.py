"""Every migration since the last release only adds, so that hosts can be upgraded one after the other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.apps import apps
from django.db import models
from django.db.migrations import operations as ops
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState
from django.db.models.functions import Now

from portal.backup.tables import APPS, kind_of
from portal.management.commands.up import CONTRACT
from tests.releases import LAST, database
from tests.releases.expand import objection


def test_the_release_before_survives_every_migration_since(tmp_path: Path) -> None:
    with closing(sqlite3.connect(database(LAST, tmp_path / "last"))) as last:
        done = set(last.execute("SELECT app, name FROM django_migrations"))
    loader = MigrationLoader(None, replace_migrations=False)
    new: set[tuple[str, str]] = set()
    objections = []
    for key in loader.graph._generate_plan(loader.graph.leaf_nodes(), at_end=True):
        if key in done or key[0] not in APPS or key in loader.replacements:
            continue
        before = loader.project_state(key, at_end=False)
        for operation in loader.get_migration(*key).operations:
            if isinstance(operation, ops.CreateModel):
                new.add((key[0], operation.name_lower))
            if CONTRACT not in key[1] and (said := objection(operation, key[0], before, new)):
                objections.append(f"{key[0]} {key[1]}: {said}")
            operation.state_forwards(key[0], before)
    assert objections == []


def column(**options: object) -> models.Field[str, str]:
    return models.CharField(max_length=10, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        (ops.AddField("job", "new", column()), "db_default"),
        (ops.AddField("job", "new", column(default="x")), "db_default"),
        (ops.AddField("job", "at", models.DateTimeField(db_default=Now())), "computed"),
        (ops.AddField("job", "new", column(db_default="")), ""),
        (ops.AddField("job", "new", column(null=True)), ""),
        (ops.AlterField("job", "name", column()), "nulls"),
        (ops.AlterField("job", "name", models.TextField(null=True)), "another type"),
        (ops.AlterField("job", "name", models.CharField(max_length=9, null=True)), "longer"),
        (ops.AlterField("job", "name", models.CharField(max_length=11, null=True)), ""),
        (ops.RemoveField("job", "name"), "takes away"),
        (ops.RenameField("job", "name", "title"), "takes away"),
        (ops.DeleteModel("job"), "takes away"),
        (ops.AddConstraint("job", models.UniqueConstraint(fields=["name"], name="one")), "keep to it"),
        (ops.AddField("fresh", "new", column()), ""),
    ],
)
def test_what_it_would_not_survive_is_named(operation: Operation, says: str) -> None:
    before = ProjectState({("jobs", "job"): ModelState("jobs", "Job", [("name", column(null=True))])})
    said = objection(operation, "jobs", before, {("jobs", "fresh")})
    assert says in said if says else not said


def test_a_backup_knows_every_kind_of_column() -> None:
    for app in APPS:
        for model in apps.get_app_config(app).get_models(include_auto_created=True):
            for field in model._meta.concrete_fields:
                assert kind_of(field)
