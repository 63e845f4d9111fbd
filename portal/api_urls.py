"""Every route of the API: v1, which is below ``/api/v1/``, v2 and those of the very first release. None has a slash at
its end; a request may have one.

A route about one job exists below ``/jobs`` (where a name may be ``user~job``) and below ``/user/:username/jobs``.
"""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.appointments import api as appointments
from portal.audit import api as audit
from portal.hosts import api as hosts
from portal.job import api as job
from portal.job import history
from portal.lists import api as lists
from portal.lists import api_v2 as job_v2
from portal.lists import early
from portal.logs import api as logs
from portal.logs import container_log
from portal.metrics import api as metrics
from portal.nodes import api as nodes
from portal.nodes import paths as _paths  # noqa: F401 - makes <node:name> known
from portal.policy import api as policy
from portal.reports import api as reports
from portal.rewind import api as rewind
from portal.shared.api.v1 import V1View
from portal.sign_in.api import AuthnInfo, TokenView
from portal.sweeps import api as sweeps
from portal.terminal import api as terminal
from portal.users import api as users
from portal.vcs import api as vcs
from portal.waiting import api as waiting
from portal.web_pages import api as web_pages

_ROOTS = ("jobs", "user/<str:username>/jobs")
_TASK = "<str:job>/taskRoles/<str:role>/<int:index>"
_PAGE = "services/<str:role>/<int:index>/<str:label>"

_sign_in = [
    path("token", TokenView.as_view()),
    path("authn/info", AuthnInfo.as_view()),
    path("authn/basic/login", TokenView.as_view()),
]
_vcs = [
    path("virtual-clusters", vcs.VirtualClusters.as_view()),
    path("virtual-clusters/<str:vc>", vcs.OneVirtualCluster.as_view()),
    path("virtual-clusters/<str:vc>/status", vcs.VirtualClusterStatus.as_view()),
]
# v0.14's, below v1 and v2 alike. Of ``/user`` and ``/user/:username`` there are two kinds: v1's are v0.9's to v0.13's.
_users = [
    path("user/<str:username>/password", users.Password.as_view()),
    path("user/<str:username>/virtualcluster", users.grants.as_view()),
    path("user/<str:username>/admin", users.admin.as_view()),
    path("user/<str:username>/email", users.email.as_view()),
    path("user/<str:username>/storequota", users.store_quota.as_view()),
    path("user/<str:username>/extension", users.extension.as_view()),
    path("user/<str:username>/grouplist", users.grouplist.as_view()),
    path("user/<str:username>/group", users.Membership.as_view()),
    path("user/<str:username>/githubPAT", users.github_pat.as_view()),
    path("group", users.Groups.as_view()),
    path("group/<str:group>", users.OneGroup.as_view()),
    path("group/<str:group>/extension", users.group_extension.as_view()),
    path("group/<str:group>/description", users.description.as_view()),
    path("group/<str:group>/externalname", users.external_name.as_view()),
    path("group/<str:group>/userlist", users.GroupUsers.as_view()),
]


def _of_jobs(*routes: tuple[str, type[V1View]]) -> list[URLPattern]:
    """These routes below a job's two addresses."""
    return [path(f"{root}/{route}", view.as_view()) for root in _ROOTS for route, view in routes]


_logs = _of_jobs(
    ("<str:job>/logs", logs.JobLogs),
    (f"{_TASK}/logs/<int:attempt>", container_log.ContainerLogs),
    (f"{_TASK}/logs/<str:stream>", logs.TaskLog),
    (f"{_TASK}/logs/<int:attempt>/<str:stream>", container_log.ContainerLog),
)
_one_job = _of_jobs(("<str:job>", job.OneJob))
_job = _of_jobs(
    ("<str:job>/executionType", job.ExecutionType),
    ("<str:job>/release", job.Release),
    ("<str:job>/rewind", rewind.Rewind),
    ("<str:job>/priority", job.Priority),
    ("<str:job>/position", job.Position),
    ("<str:job>/config", job.JobConfig),
    ("<str:job>/ssh", job.JobSsh),
    ("<str:job>/attempts", history.Attempts),
    ("<str:job>/attempts/<str:number>", history.OneAttempt),
    ("<str:job>/events", history.Events),
    ("<str:job>/why", waiting.JobWhy),
)
_around_a_job = _of_jobs(
    (f"{_TASK}/terminal", terminal.TerminalTicket),
    (f"{_TASK}/metrics", metrics.TaskMetrics),
    ("<str:job>/metrics/summary", metrics.Summary),
    ("<str:job>/services", web_pages.Services),
    (f"<str:job>/{_PAGE}/ticket", web_pages.OpenTicket),
    (f"<str:job>/{_PAGE}/links", web_pages.Link),
    (f"<str:job>/{_PAGE}/shares/<str:kind>/<str:name>", web_pages.Share),
    ("<str:job>/tensorboard", web_pages.ServeTensorBoard),
)

v1: list[URLPattern] = [
    # What clients poll stands first, as the addresses are tried one after the other.
    path("jobs/validate", lists.Validate.as_view(), {"job": "validate"}),
    *(path(root, lists.JobList.as_view()) for root in _ROOTS),
    *_one_job,
    *_sign_in,
    path("hosts", hosts.Hosts.as_view()),
    path("audit", audit.Audit.as_view()),
    path("user", users.EarlierUsers.as_view()),
    path("user/<str:username>", users.OneUserToo.as_view()),
    path("user/<str:username>/virtualClusters", users.virtual_clusters.as_view()),
    *_users,
    path("nodes", nodes.NodeList.as_view()),
    path("nodes/<node:name>", nodes.NodeDetail.as_view()),
    path("nodes/<node:name>/status", nodes.NodeStatusView.as_view()),
    path("nodes/<node:name>/gone", nodes.NodeGone.as_view()),
    *_vcs,
    *_logs,
    *_job,
    *_around_a_job,
    path("appointments", appointments.Appointments.as_view()),
    path("appointments/<int:id>", appointments.OneAppointment.as_view()),
    path("usage", reports.Usage.as_view()),
    path("cluster/forecasts", reports.Forecasts.as_view()),
    path("cluster/timeline", reports.Timeline.as_view()),
    path("cluster/what-if", policy.WhatIfView.as_view()),
    path("cluster/replay", policy.Replays.as_view()),
    path("cluster/replay/<int:id>", policy.OneReplay.as_view()),
    path("sweeps", sweeps.Sweeps.as_view()),
    path("sweeps/validate", sweeps.ValidateSweep.as_view()),
    path("sweeps/<str:sweep>", sweeps.OneSweep.as_view()),
    path("sweeps/<str:sweep>/executionType", sweeps.SweepExecutionType.as_view()),
]
v2: list[URLPattern] = [
    *_sign_in,
    path("user", users.Users.as_view()),
    path("user/<str:username>", users.OneUser.as_view()),
    *_users,
    *_vcs,
    *_logs,
    path("jobs", job_v2.JobListV2.as_view()),
    path("user/<str:username>/jobs", lists.JobList.as_view()),
    path("jobs/protocolversion/config", job_v2.ProtocolProbe.as_view()),
    path("jobs/<str:job>/config", job_v2.JobConfigV2.as_view()),
    *_one_job,
    *_job,
]
first_release: list[URLPattern] = [
    path("auth", early.Auth.as_view()),
    path("job", early.EarlyJobs.as_view()),
    path("job/<str:job>", early.EarlyJob.as_view()),
]
