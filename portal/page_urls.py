"""Every page and its address, by feature. None has a slash at its end; a request may have one."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.urls import URLPattern, path

import portal.account.views
import portal.audit.views
import portal.docs.views
import portal.docs.wheel
import portal.files.paths  # makes <file:path> known
import portal.files.views
import portal.hosts.hosts
import portal.job.actions
import portal.job.change
import portal.job.live
import portal.job.order
import portal.job.views
import portal.lists.live
import portal.lists.views
import portal.logs.views
import portal.metrics.exposition
import portal.metrics.views
import portal.nodes.adding.views
import portal.nodes.paths  # makes <node:name> known
import portal.nodes.views
import portal.notebooks.views
import portal.notices.views
import portal.policy.views
import portal.reports.views
import portal.rewind.views
import portal.sign_in.command
import portal.sign_in.providers
import portal.sign_in.rules
import portal.sign_in.views
import portal.submit.keeping
import portal.submit.views
import portal.sweeps.views
import portal.terminal.page
import portal.terminal.views
import portal.users.views
import portal.vcs.views
import portal.waiting.views
import portal.web_pages.views
from portal.shared import old_addresses
from portal.shared.live.page import LivePage
from portal.shared.live.stream import page_stream
from portal.shared.look.context import choose_theme

_JOB = "jobs/<str:username>/<str:name>"
# Pages that change while they are open, by the name that their streams have for them.
LIVE: dict[str, Callable[[HttpRequest], LivePage]] = {
    "home": portal.lists.live.LiveHome,
    "jobs": portal.lists.live.LiveJobList,
    "job": portal.job.live.LiveJob,
    "terminal": portal.terminal.page.LiveTerminals,
    "nodes": portal.nodes.views.LiveNodes,
    "node": portal.nodes.views.LiveNode,
    "drain": portal.nodes.views.LiveNode,
    "wall": portal.nodes.views.LiveWall,
    "check": portal.nodes.views.LiveCheck,
    "sweep": portal.sweeps.views.LiveSweep,
    "replay": portal.policy.views.LiveReplay,
}

urlpatterns: list[URLPattern] = [
    path("theme", choose_theme),
    path("clients", portal.docs.wheel.client_wheel),
    path("clients/<str:name>", portal.docs.wheel.client_wheel),
    path("guides", portal.docs.views.guides),
    path("guides/<path:name>", portal.docs.views.guide),
    # one's own account
    path("login", portal.sign_in.views.login),
    path("logout", portal.sign_in.views.logout),
    path("sign-in/<str:name>", portal.sign_in.providers.begin_sign_in),
    path("sign-in/<str:name>/back", portal.sign_in.providers.end_sign_in),
    path("account", portal.account.views.account),
    path("account/sign-in/<int:identity_id>/unlink", portal.account.views.unlink),
    path("account/sign-in/<str:name>/link", portal.account.views.link_directory),
    path("account/command", portal.sign_in.command.let_in),
    path("account/tokens", portal.account.views.tokens),
    path("account/tokens/<int:token_id>/revoke", portal.account.views.revoke_token),
    path("account/tokens/clients/revoke", portal.account.views.revoke_sign_ins),
    path("account/keys", portal.account.views.keys),
    path("account/keys/<int:key_id>/remove", portal.account.views.remove_key),
    path("notices", portal.notices.views.notice_list),
    path("account/notices", portal.notices.views.notice_settings),
    path("account/notices/rules/delete", portal.notices.views.delete_rule),
    path("account/notices/hours", portal.notices.views.quiet_hours),
    path("account/notices/calls", portal.notices.views.calls),
    path("account/notices/calls/<str:delivery>/again", portal.notices.views.send_again),
    path("account/notices/channels/<str:channel>/delete", portal.notices.views.delete_channel),
    path("account/notices/channels/<str:channel>/test", portal.notices.views.test_channel),
    path("account/notices/channels/<str:channel>/waiting", portal.notices.views.send_waiting),
    # files, hosts, audit
    path("files", portal.files.views.files),
    path("files/<file:path>", portal.files.views.files),
    path("hosts", portal.hosts.hosts.hosts_page),
    path("admin/audit", portal.audit.views.audit_page),
    # nodes, clusters of nodes
    path("nodes", portal.nodes.views.all_nodes),
    path("nodes/<node:name>", portal.nodes.views.node),
    path("nodes/<node:name>/drain", portal.nodes.views.drain_node),
    path("nodes/<node:name>/edit", portal.nodes.adding.views.edit_node),
    path("nodes/<node:name>/remove", portal.nodes.adding.views.remove_node),
    path("nodes/<node:name>/status", portal.nodes.adding.views.node_status),
    path("nodes/<node:name>/gone", portal.nodes.views.node_gone),
    path("nodes/<node:name>/metrics", portal.metrics.views.node_metrics),
    path("nodes/<node:name>/metrics/data", portal.metrics.views.node_metrics_data),
    path("add-node", portal.nodes.adding.views.add_node),
    path("add-cluster", portal.nodes.adding.views.add_cluster),
    path("clusters/<str:name>/edit", portal.nodes.adding.views.edit_cluster),
    path("clusters/<str:name>/remove", portal.nodes.adding.views.remove_cluster),
    path("check-cluster", portal.nodes.views.cluster_check),
    path("wall", portal.nodes.views.wall),
    # users, virtual clusters
    path("admin/sign-in", portal.sign_in.rules.sign_in_page),
    path("admin/sign-in/rules/new", portal.sign_in.rules.rule_page),
    path("admin/sign-in/rules/<int:rule_id>", portal.sign_in.rules.rule_page),
    path("admin/sign-in/rules/<int:rule_id>/remove", portal.sign_in.rules.remove_rule),
    path("users", portal.users.views.users),
    path("users/<str:username>", portal.users.views.user),
    path("users/<str:username>/delete", portal.users.views.delete_user),
    path("users/<str:username>/tokens", portal.account.views.service_tokens),
    path("users/<str:username>/tokens/<int:token_id>/revoke", portal.account.views.revoke_token),
    path("vcs", portal.vcs.views.vcs),
    path("vcs/<str:name>", portal.vcs.views.vcs),
    path("vcs/<str:name>/settings", portal.vcs.views.vc_settings),
    path("vcs/<str:name>/status", portal.vcs.views.vc_status),
    path("vcs/<str:name>/users", portal.vcs.views.vc_grant),
    path("vcs/<str:name>/delete", portal.vcs.views.delete_vc),
    # home, the job list
    path("", portal.lists.views.home),
    path("jobs", portal.lists.views.job_list),
    path("jobs/stop", portal.job.actions.stop_jobs),
    path("jump", portal.lists.views.jump),
    path("jump/near", portal.lists.views.jump_suggestions),
    path("stream/page", page_stream, {"pages": LIVE}),
    # Submit Job
    path("submit", portal.submit.views.submit),
    path("submit/check", portal.submit.views.check_submission),
    path("submit/sizes", portal.submit.views.sizes),
    path("submit/schema", portal.submit.views.schema),
    path("submit/ignored", portal.submit.keeping.ignored_files),
    path("submit/drafts", portal.submit.keeping.keep_draft),
    path("submit/drafts/<int:id>/delete", portal.submit.keeping.discard_draft),
    path("submit/templates", portal.submit.keeping.save_template),
    path("submit/templates/<int:id>/delete", portal.submit.keeping.delete_template),
    path("submit/images", portal.submit.views.images),
    path("sweeps/<str:username>/<str:name>", portal.sweeps.views.sweep_page),
    path("sweeps/<str:username>/<str:name>/stop", portal.sweeps.views.stop_sweep),
    path("notebooks", portal.notebooks.views.notebook_list),
    path("notebooks/<str:name>", portal.notebooks.views.open_notebook),
    path("notebooks/<str:name>/give-back", portal.notebooks.views.give_back),
    # one job
    path(_JOB, portal.job.views.job_page, {"tab": "tasks"}),
    path(f"{_JOB}/events", portal.job.views.job_page, {"tab": "events"}),
    path(f"{_JOB}/attempts", portal.job.views.job_page, {"tab": "attempts"}),
    path(f"{_JOB}/config", portal.job.views.job_config),
    path(f"{_JOB}/ssh", portal.job.views.job_page, {"tab": "ssh"}),
    path(f"{_JOB}/ssh/logins", portal.job.views.ssh_logins),
    path(f"{_JOB}/stop", portal.job.actions.stop_job),
    path(f"{_JOB}/release", portal.job.actions.release_job),
    path(f"{_JOB}/delete", portal.job.actions.delete_job),
    path(f"{_JOB}/why", portal.waiting.views.why_page),
    path(f"{_JOB}/why/fixes", portal.waiting.views.why_fixes),
    path(f"{_JOB}/change", portal.job.change.change_job),
    path(f"{_JOB}/again", portal.job.change.submit_again),
    path(f"{_JOB}/place", portal.job.order.move_in_queue),
    path(f"{_JOB}/rewind", portal.rewind.views.reopen),
    path(f"{_JOB}/logs", portal.logs.views.log_page),
    path(f"{_JOB}/logs/rows", portal.logs.views.log_rows),
    path(f"{_JOB}/logs/download", portal.logs.views.download_log),
    path("stream/logs/<str:username>/<str:name>", portal.logs.views.log_stream),
    path("stream/logs/<str:username>/<str:name>/search", portal.logs.views.search_log),
    path(f"{_JOB}/terminal", portal.terminal.views.terminal_page),
    path(f"{_JOB}/terminal/ready", portal.terminal.views.terminal_ready),
    path(f"{_JOB}/terminal/close", portal.terminal.views.close_terminal),
    path("terminal/<str:username>/<str:name>/<str:role>/<int:index>", portal.terminal.views.may_open_terminal),
    path(f"{_JOB}/metrics", portal.metrics.views.job_metrics),
    path(f"{_JOB}/metrics/data", portal.metrics.views.job_metrics_data),
    path(f"{_JOB}/metrics/csv", portal.metrics.views.job_metrics_csv),
    path(f"{_JOB}/web", portal.web_pages.views.web_pages_tab),
    path(f"{_JOB}/web/pages", portal.web_pages.views.web_pages_part),
    path(f"{_JOB}/web/share", portal.web_pages.views.share_web_page),
    path(f"{_JOB}/web/serve", portal.web_pages.views.serve_tensorboard),
    path(f"{_JOB}/web/<str:role>/<int:index>/<str:label>", portal.web_pages.views.open_page),
    path("s/<str:token>", portal.web_pages.views.open_link),
    path("confirm-address/<str:token>", portal.notices.views.confirm_address),
    # reports, what-if
    path("usage", portal.reports.views.usage),
    path("forecasts", portal.reports.views.forecasts),
    path("timeline", portal.reports.views.timeline),
    path("metrics", portal.metrics.exposition.Metrics.as_view()),
    path("cluster/metrics", portal.metrics.views.cluster_metrics),
    path("cluster/metrics/data", portal.metrics.views.cluster_metrics_data),
    path("policy", portal.policy.views.policy),
    path("replay", portal.policy.views.replays),
    path("replay/<int:id>", portal.policy.views.replay),
    *old_addresses.urlpatterns,
]
