"""Every page and its address, by feature. None has a slash at its end; a request may have one."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.urls import URLPattern, path

import portal.files.paths  # makes <file:path> known
import portal.nodes.paths  # noqa: F401 - makes <node:name> known
from portal.account.views import (
    account,
    keys,
    link_directory,
    remove_key,
    revoke_sign_ins,
    revoke_token,
    service_tokens,
    tokens,
    unlink,
)
from portal.audit.views import audit_page
from portal.docs.views import guide, guides
from portal.docs.wheel import client_wheel
from portal.files.views import files
from portal.hosts.hosts import hosts_page
from portal.job.actions import delete_job, release_job, stop_job, stop_jobs
from portal.job.change import change_job, submit_again
from portal.job.live import LiveJob
from portal.job.order import move_in_queue
from portal.job.views import job_config, job_page, ssh_logins
from portal.lists.live import LiveHome, LiveJobList
from portal.lists.views import home, job_list, jump, jump_suggestions
from portal.logs.views import download_log, log_page, log_rows, log_stream, search_log
from portal.metrics.exposition import Metrics
from portal.metrics.views import (
    cluster_metrics,
    cluster_metrics_data,
    job_metrics,
    job_metrics_csv,
    job_metrics_data,
    node_metrics,
    node_metrics_data,
)
from portal.nodes.adding.views import (
    add_cluster,
    add_node,
    edit_cluster,
    edit_node,
    node_status,
    remove_cluster,
    remove_node,
)
from portal.nodes.views import (
    LiveCheck,
    LiveNode,
    LiveNodes,
    LiveWall,
    all_nodes,
    cluster_check,
    drain_node,
    node,
    node_gone,
    wall,
)
from portal.notebooks.views import give_back, notebook_list, open_notebook
from portal.notices.views import (
    calls,
    confirm_address,
    delete_channel,
    delete_rule,
    notice_list,
    notice_settings,
    quiet_hours,
    send_again,
    send_waiting,
    test_channel,
)
from portal.policy.views import LiveReplay, policy, replay, replays
from portal.reports.views import forecasts, timeline, usage
from portal.rewind.views import reopen
from portal.shared import old_addresses
from portal.shared.live.page import LivePage
from portal.shared.live.stream import page_stream
from portal.shared.look.context import choose_theme
from portal.sign_in.command import let_in
from portal.sign_in.providers import begin_sign_in, end_sign_in
from portal.sign_in.rules import remove_rule, rule_page, sign_in_page
from portal.sign_in.views import login, logout
from portal.submit.keeping import delete_template, discard_draft, ignored_files, keep_draft, save_template
from portal.submit.views import check_submission, images, schema, sizes, submit
from portal.sweeps.views import LiveSweep, stop_sweep, sweep_page
from portal.terminal.page import LiveTerminals
from portal.terminal.views import close_terminal, may_open_terminal, terminal_page, terminal_ready
from portal.users.views import delete_user, user, users
from portal.vcs.views import delete_vc, vc_grant, vc_settings, vc_status, vcs
from portal.waiting.views import why_fixes, why_page
from portal.web_pages.views import (
    open_link,
    open_page,
    serve_tensorboard,
    share_web_page,
    web_pages_part,
    web_pages_tab,
)

_JOB = "jobs/<str:username>/<str:name>"
# Pages that change while they are open, by the name that their streams have for them.
LIVE: dict[str, Callable[[HttpRequest], LivePage]] = {
    "home": LiveHome,
    "jobs": LiveJobList,
    "job": LiveJob,
    "terminal": LiveTerminals,
    "nodes": LiveNodes,
    "node": LiveNode,
    "drain": LiveNode,
    "wall": LiveWall,
    "check": LiveCheck,
    "sweep": LiveSweep,
    "replay": LiveReplay,
}

urlpatterns: list[URLPattern] = [
    path("theme", choose_theme),
    path("clients", client_wheel),
    path("clients/<str:name>", client_wheel),
    path("guides", guides),
    path("guides/<path:name>", guide),
    # one's own account
    path("login", login),
    path("logout", logout),
    path("sign-in/<str:name>", begin_sign_in),
    path("sign-in/<str:name>/back", end_sign_in),
    path("account", account),
    path("account/sign-in/<int:identity_id>/unlink", unlink),
    path("account/sign-in/<str:name>/link", link_directory),
    path("account/command", let_in),
    path("account/tokens", tokens),
    path("account/tokens/<int:token_id>/revoke", revoke_token),
    path("account/tokens/clients/revoke", revoke_sign_ins),
    path("account/keys", keys),
    path("account/keys/<int:key_id>/remove", remove_key),
    path("notices", notice_list),
    path("account/notices", notice_settings),
    path("account/notices/rules/delete", delete_rule),
    path("account/notices/hours", quiet_hours),
    path("account/notices/calls", calls),
    path("account/notices/calls/<str:delivery>/again", send_again),
    path("account/notices/channels/<str:channel>/delete", delete_channel),
    path("account/notices/channels/<str:channel>/test", test_channel),
    path("account/notices/channels/<str:channel>/waiting", send_waiting),
    # files, hosts, audit
    path("files", files),
    path("files/<file:path>", files),
    path("hosts", hosts_page),
    path("admin/audit", audit_page),
    # nodes, clusters of nodes
    path("nodes", all_nodes),
    path("nodes/<node:name>", node),
    path("nodes/<node:name>/drain", drain_node),
    path("nodes/<node:name>/edit", edit_node),
    path("nodes/<node:name>/remove", remove_node),
    path("nodes/<node:name>/status", node_status),
    path("nodes/<node:name>/gone", node_gone),
    path("nodes/<node:name>/metrics", node_metrics),
    path("nodes/<node:name>/metrics/data", node_metrics_data),
    path("add-node", add_node),
    path("add-cluster", add_cluster),
    path("clusters/<str:name>/edit", edit_cluster),
    path("clusters/<str:name>/remove", remove_cluster),
    path("check-cluster", cluster_check),
    path("wall", wall),
    # users, virtual clusters
    path("admin/sign-in", sign_in_page),
    path("admin/sign-in/rules/new", rule_page),
    path("admin/sign-in/rules/<int:rule_id>", rule_page),
    path("admin/sign-in/rules/<int:rule_id>/remove", remove_rule),
    path("users", users),
    path("users/<str:username>", user),
    path("users/<str:username>/delete", delete_user),
    path("users/<str:username>/tokens", service_tokens),
    path("users/<str:username>/tokens/<int:token_id>/revoke", revoke_token),
    path("vcs", vcs),
    path("vcs/<str:name>", vcs),
    path("vcs/<str:name>/settings", vc_settings),
    path("vcs/<str:name>/status", vc_status),
    path("vcs/<str:name>/users", vc_grant),
    path("vcs/<str:name>/delete", delete_vc),
    # home, the job list
    path("", home),
    path("jobs", job_list),
    path("jobs/stop", stop_jobs),
    path("jump", jump),
    path("jump/near", jump_suggestions),
    path("stream/page", page_stream, {"pages": LIVE}),
    # Submit Job
    path("submit", submit),
    path("submit/check", check_submission),
    path("submit/sizes", sizes),
    path("submit/schema", schema),
    path("submit/ignored", ignored_files),
    path("submit/drafts", keep_draft),
    path("submit/drafts/<int:id>/delete", discard_draft),
    path("submit/templates", save_template),
    path("submit/templates/<int:id>/delete", delete_template),
    path("submit/images", images),
    path("sweeps/<str:username>/<str:name>", sweep_page),
    path("sweeps/<str:username>/<str:name>/stop", stop_sweep),
    path("notebooks", notebook_list),
    path("notebooks/<str:name>", open_notebook),
    path("notebooks/<str:name>/give-back", give_back),
    # one job
    path(_JOB, job_page, {"tab": "tasks"}),
    path(f"{_JOB}/events", job_page, {"tab": "events"}),
    path(f"{_JOB}/attempts", job_page, {"tab": "attempts"}),
    path(f"{_JOB}/config", job_config),
    path(f"{_JOB}/ssh", job_page, {"tab": "ssh"}),
    path(f"{_JOB}/ssh/logins", ssh_logins),
    path(f"{_JOB}/stop", stop_job),
    path(f"{_JOB}/release", release_job),
    path(f"{_JOB}/delete", delete_job),
    path(f"{_JOB}/why", why_page),
    path(f"{_JOB}/why/fixes", why_fixes),
    path(f"{_JOB}/change", change_job),
    path(f"{_JOB}/again", submit_again),
    path(f"{_JOB}/place", move_in_queue),
    path(f"{_JOB}/rewind", reopen),
    path(f"{_JOB}/logs", log_page),
    path(f"{_JOB}/logs/rows", log_rows),
    path(f"{_JOB}/logs/download", download_log),
    path("stream/logs/<str:username>/<str:name>", log_stream),
    path("stream/logs/<str:username>/<str:name>/search", search_log),
    path(f"{_JOB}/terminal", terminal_page),
    path(f"{_JOB}/terminal/ready", terminal_ready),
    path(f"{_JOB}/terminal/close", close_terminal),
    path("terminal/<str:username>/<str:name>/<str:role>/<int:index>", may_open_terminal),
    path(f"{_JOB}/metrics", job_metrics),
    path(f"{_JOB}/metrics/data", job_metrics_data),
    path(f"{_JOB}/metrics/csv", job_metrics_csv),
    path(f"{_JOB}/web", web_pages_tab),
    path(f"{_JOB}/web/pages", web_pages_part),
    path(f"{_JOB}/web/share", share_web_page),
    path(f"{_JOB}/web/serve", serve_tensorboard),
    path(f"{_JOB}/web/<str:role>/<int:index>/<str:label>", open_page),
    path("s/<str:token>", open_link),
    path("confirm-address/<str:token>", confirm_address),
    # reports, what-if
    path("usage", usage),
    path("forecasts", forecasts),
    path("timeline", timeline),
    path("metrics", Metrics.as_view()),
    path("cluster/metrics", cluster_metrics),
    path("cluster/metrics/data", cluster_metrics_data),
    path("policy", policy),
    path("replay", replays),
    path("replay/<int:id>", replay),
    *old_addresses.urlpatterns,
]
