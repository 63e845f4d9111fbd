"""Addresses of the pages about jobs. They have no slash at their end; a request may have one."""

from __future__ import annotations

from django.urls import URLPattern, path

from clusters.nodes.kubernetes import paths as _paths  # noqa: F401 - makes <node:name> known
from jobs.submitting import views as keeping
from jobs.views import actions, change, detail, lists, logs, nodes, order, rewind, stream, submit, terminal, why

_JOB = "jobs/<str:username>/<str:name>"

urlpatterns: list[URLPattern] = [
    path("", lists.home, name="home"),
    path("jobs", lists.job_list, name="jobs"),
    path("jobs/stop", actions.stop_many, name="stop-many"),
    path("jump", lists.jump, name="jump"),
    path("submit", submit.submit, name="submit"),
    path("submit/check", submit.check, name="submit-check"),
    path("submit/sizes", submit.sizes, name="submit-sizes"),
    path("submit/schema", submit.schema, name="submit-schema"),
    path("submit/ignored", keeping.ignored, name="submit-ignored"),
    path("submit/drafts", keeping.keep, name="draft-keep"),
    path("submit/drafts/<int:id>/delete", keeping.discard, name="draft-discard"),
    path("submit/templates", keeping.save_template, name="template-save"),
    path("submit/templates/<int:id>/delete", keeping.delete_template, name="template-delete"),
    path("submit/images", submit.images, name="submit-images"),
    path(_JOB, detail.show, {"tab": "tasks"}, name="job"),
    path(f"{_JOB}/events", detail.show, {"tab": "events"}, name="job-events"),
    path(f"{_JOB}/attempts", detail.show, {"tab": "attempts"}, name="job-attempts"),
    path(f"{_JOB}/config", detail.config, name="job-config"),
    path(f"{_JOB}/ssh", detail.show, {"tab": "ssh"}, name="job-ssh"),
    path(f"{_JOB}/ssh/logins", detail.ssh_logins, name="job-ssh-logins"),
    path(f"{_JOB}/terminal", terminal.show, name="job-terminal"),
    path(f"{_JOB}/terminal/ready", terminal.ready, name="job-terminal-ready"),
    path(f"{_JOB}/rewind", rewind.reopen, name="job-rewind"),
    path(f"{_JOB}/terminal/close", terminal.close, name="job-terminal-close"),
    path("terminal/<str:username>/<str:name>/<str:role>/<int:index>", terminal.may_open, name="terminal"),
    path(f"{_JOB}/stop", actions.stop, name="job-stop"),
    path(f"{_JOB}/release", actions.release, name="job-release"),
    path(f"{_JOB}/why", why.page, name="job-why"),
    path(f"{_JOB}/change", change.change, name="job-change"),
    path(f"{_JOB}/place", order.place, name="job-place"),
    path(f"{_JOB}/delete", actions.delete, name="job-delete"),
    path(f"{_JOB}/logs", logs.page, name="job-logs"),
    path(f"{_JOB}/logs/rows", logs.rows, name="job-log-rows"),
    path(f"{_JOB}/logs/download", logs.download, name="job-log-download"),
    path("check-cluster", nodes.check, name="check-cluster"),
    path("wall", nodes.wall, name="wall"),
    path("nodes", nodes.all_nodes, name="nodes"),
    path("nodes/<node:name>", nodes.node, name="node"),
    path("nodes/<node:name>/drain", nodes.drain, name="node-drain"),
    path("stream/page", stream.page, name="stream"),
    path("stream/logs/<str:username>/<str:name>", logs.stream, name="job-log-stream"),
    path("stream/logs/<str:username>/<str:name>/search", logs.search, name="job-log-search"),
]
