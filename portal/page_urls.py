"""Every page and its address, by feature. None has a slash at its end; a request may have one."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.urls import URLPattern, path

from portal.account import views as account
from portal.audit import views as audit
from portal.docs import views as guides
from portal.files import views as files
from portal.hosts import hosts
from portal.job import actions, change, order
from portal.job import views as job
from portal.job.live import LiveJob
from portal.lists import views as lists
from portal.lists.live import LiveHome, LiveJobList
from portal.logs import views as logs
from portal.metrics import exposition
from portal.metrics import views as metrics
from portal.nodes import paths as _paths  # noqa: F401 - makes <node:name> known
from portal.nodes import views as nodes
from portal.nodes.adding import views as adding
from portal.policy import views as policy
from portal.reports import views as reports
from portal.rewind import views as rewind
from portal.shared import old_addresses
from portal.shared.live import stream
from portal.shared.live.page import LivePage
from portal.shared.look.context import choose_theme
from portal.submit import keeping
from portal.submit import views as submit
from portal.sweeps import views as sweeps
from portal.terminal import views as terminal
from portal.terminal.page import LiveTerminals
from portal.users import views as users
from portal.vcs import views as vcs
from portal.waiting import views as waiting
from portal.web_pages import views as web_pages

_JOB = "jobs/<str:username>/<str:name>"
# Pages that change while they are open, by the name that their streams have for them.
LIVE: dict[str, Callable[[HttpRequest], LivePage]] = {
    "home": LiveHome,
    "jobs": LiveJobList,
    "job": LiveJob,
    "terminal": LiveTerminals,
    "nodes": nodes.LiveNodes,
    "node": nodes.LiveNode,
    "drain": nodes.LiveNode,
    "wall": nodes.LiveWall,
    "check": nodes.LiveCheck,
    "sweep": sweeps.LiveSweep,
    "replay": policy.LiveReplay,
}

urlpatterns: list[URLPattern] = [
    path("theme", choose_theme),
    path("guides", guides.guides),
    path("guides/<path:name>", guides.guide),
    # one's own account
    path("login", account.login),
    path("logout", account.logout),
    path("account", account.account),
    path("account/tokens", account.tokens),
    path("account/tokens/<int:token_id>/revoke", account.revoke),
    path("account/keys", account.keys),
    path("account/keys/<int:key_id>/remove", account.remove_key),
    # files, hosts, audit
    path("files", files.files),
    path("files/<path:path>", files.files),
    path("hosts", hosts.show),
    path("admin/audit", audit.show),
    # nodes, clusters of nodes
    path("nodes", nodes.all_nodes),
    path("nodes/<node:name>", nodes.node),
    path("nodes/<node:name>/drain", nodes.drain),
    path("nodes/<node:name>/edit", adding.edit),
    path("nodes/<node:name>/remove", adding.remove),
    path("nodes/<node:name>/status", adding.status),
    path("nodes/<node:name>/gone", nodes.gone),
    path("nodes/<node:name>/metrics", metrics.node),
    path("nodes/<node:name>/metrics/data", metrics.node_data),
    path("add-node", adding.add),
    path("add-cluster", adding.add_cluster),
    path("clusters/<str:name>/edit", adding.edit_cluster),
    path("clusters/<str:name>/remove", adding.remove_cluster),
    path("check-cluster", nodes.check),
    path("wall", nodes.wall),
    # users, virtual clusters
    path("users", users.users),
    path("users/<str:username>", users.user),
    path("users/<str:username>/delete", users.delete),
    path("vcs", vcs.vcs),
    path("vcs/<str:name>", vcs.vcs),
    path("vcs/<str:name>/settings", vcs.settings),
    path("vcs/<str:name>/status", vcs.status),
    path("vcs/<str:name>/delete", vcs.delete),
    # home, the job list
    path("", lists.home),
    path("jobs", lists.job_list),
    path("jobs/stop", actions.stop_many),
    path("jump", lists.jump),
    path("jump/near", lists.near),
    path("stream/page", stream.page, {"pages": LIVE}),
    # Submit Job
    path("submit", submit.submit),
    path("submit/check", submit.check),
    path("submit/sizes", submit.sizes),
    path("submit/schema", submit.schema),
    path("submit/ignored", keeping.ignored),
    path("submit/drafts", keeping.keep),
    path("submit/drafts/<int:id>/delete", keeping.discard),
    path("submit/templates", keeping.save_template),
    path("submit/templates/<int:id>/delete", keeping.delete_template),
    path("submit/images", submit.images),
    path("sweeps/<str:username>/<str:name>", sweeps.show),
    path("sweeps/<str:username>/<str:name>/stop", sweeps.stop),
    # one job
    path(_JOB, job.show, {"tab": "tasks"}),
    path(f"{_JOB}/events", job.show, {"tab": "events"}),
    path(f"{_JOB}/attempts", job.show, {"tab": "attempts"}),
    path(f"{_JOB}/config", job.config),
    path(f"{_JOB}/ssh", job.show, {"tab": "ssh"}),
    path(f"{_JOB}/ssh/logins", job.ssh_logins),
    path(f"{_JOB}/stop", actions.stop),
    path(f"{_JOB}/release", actions.release),
    path(f"{_JOB}/delete", actions.delete),
    path(f"{_JOB}/why", waiting.page),
    path(f"{_JOB}/why/fixes", waiting.fixes),
    path(f"{_JOB}/change", change.change),
    path(f"{_JOB}/again", change.again),
    path(f"{_JOB}/place", order.place),
    path(f"{_JOB}/rewind", rewind.reopen),
    path(f"{_JOB}/logs", logs.page),
    path(f"{_JOB}/logs/rows", logs.rows),
    path(f"{_JOB}/logs/download", logs.download),
    path("stream/logs/<str:username>/<str:name>", logs.stream),
    path("stream/logs/<str:username>/<str:name>/search", logs.search),
    path(f"{_JOB}/terminal", terminal.show),
    path(f"{_JOB}/terminal/ready", terminal.ready),
    path(f"{_JOB}/terminal/close", terminal.close),
    path("terminal/<str:username>/<str:name>/<str:role>/<int:index>", terminal.may_open),
    path(f"{_JOB}/metrics", metrics.show),
    path(f"{_JOB}/metrics/data", metrics.data),
    path(f"{_JOB}/metrics/csv", metrics.as_csv),
    path(f"{_JOB}/web", web_pages.tab),
    path(f"{_JOB}/web/pages", web_pages.part),
    path(f"{_JOB}/web/share", web_pages.share),
    path(f"{_JOB}/web/serve", web_pages.serve),
    path(f"{_JOB}/web/<str:role>/<int:index>/<str:label>", web_pages.open_page),
    path("s/<str:token>", web_pages.open_link),
    # reports, what-if
    path("usage", reports.usage),
    path("forecasts", reports.forecasts),
    path("timeline", reports.timeline),
    path("metrics", exposition.Metrics.as_view()),
    path("cluster/metrics", metrics.cluster),
    path("cluster/metrics/data", metrics.cluster_data),
    path("policy", policy.policy),
    path("replay", policy.replays),
    path("replay/<int:id>", policy.replay),
    *old_addresses.urlpatterns,
]
