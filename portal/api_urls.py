"""Every route of the API: v1, which is below ``/api/v1/``, v2 and those of the very first release. None has a slash at
its end; a request may have one.

A route about one job exists below ``/jobs`` (where a name may be ``user~job``) and below ``/user/:username/jobs``.
"""

from __future__ import annotations

from django.urls import URLPattern, path

import portal.appointments.api
import portal.audit.api
import portal.hosts.api
import portal.job.api
import portal.job.history
import portal.lists.api
import portal.lists.api_v2
import portal.lists.early
import portal.logs.api
import portal.logs.container_log
import portal.metrics.api
import portal.nodes.api
import portal.nodes.paths  # makes <node:name> known
import portal.notices.api
import portal.policy.api
import portal.reports.api
import portal.rewind.api
import portal.sign_in.api
import portal.sign_in.command
import portal.sweeps.api
import portal.terminal.api
import portal.users.api
import portal.users.service_accounts
import portal.vcs.api
import portal.waiting.api
import portal.web_pages.api
from portal.shared.api.v1 import V1View

_ROOTS = ("jobs", "user/<str:username>/jobs")
_TASK = "<str:job>/taskRoles/<str:role>/<int:index>"
_PAGE = "services/<str:role>/<int:index>/<str:label>"

_sign_in = [
    path("token", portal.sign_in.api.TokenView.as_view()),
    path("token/code", portal.sign_in.command.TokenOfCode.as_view()),
    path("authn/info", portal.sign_in.api.AuthnInfo.as_view()),
    path("authn/basic/login", portal.sign_in.api.TokenView.as_view()),
]
_vcs = [
    path("virtual-clusters", portal.vcs.api.VirtualClusters.as_view()),
    path("virtual-clusters/<str:vc>", portal.vcs.api.OneVirtualCluster.as_view()),
    path("virtual-clusters/<str:vc>/status", portal.vcs.api.VirtualClusterStatus.as_view()),
]
# v0.14's, below v1 and v2 alike. Of ``/user`` and ``/user/:username`` there are two kinds: v1's are v0.9's to v0.13's.
_users = [
    path("user/<str:username>/password", portal.users.api.Password.as_view()),
    path("user/<str:username>/virtualcluster", portal.users.api.put_grants.as_view()),
    path("user/<str:username>/admin", portal.users.api.put_admin.as_view()),
    path("user/<str:username>/email", portal.users.api.put_email.as_view()),
    path("user/<str:username>/storequota", portal.users.api.put_store_quota.as_view()),
    path("user/<str:username>/extension", portal.users.api.put_extension.as_view()),
    path("user/<str:username>/grouplist", portal.users.api.put_grouplist.as_view()),
    path("user/<str:username>/group", portal.users.api.Membership.as_view()),
    path("user/<str:username>/githubPAT", portal.users.api.put_github_pat.as_view()),
    path("group", portal.users.api.Groups.as_view()),
    path("group/<str:group>", portal.users.api.OneGroup.as_view()),
    path("group/<str:group>/extension", portal.users.api.put_group_extension.as_view()),
    path("group/<str:group>/description", portal.users.api.put_group_description.as_view()),
    path("group/<str:group>/externalname", portal.users.api.put_external_name.as_view()),
    path("group/<str:group>/userlist", portal.users.api.GroupUsers.as_view()),
]


def _of_jobs(*routes: tuple[str, type[V1View]]) -> list[URLPattern]:
    """These routes below a job's two addresses."""
    return [path(f"{root}/{route}", view.as_view()) for root in _ROOTS for route, view in routes]


_logs = _of_jobs(
    ("<str:job>/logs", portal.logs.api.JobLogs),
    (f"{_TASK}/logs/<int:attempt>", portal.logs.container_log.ContainerLogs),
    (f"{_TASK}/logs/<str:stream>", portal.logs.api.TaskLog),
    (f"{_TASK}/logs/<int:attempt>/<str:stream>", portal.logs.container_log.ContainerLog),
)
_one_job = _of_jobs(("<str:job>", portal.job.api.OneJob))
_job = _of_jobs(
    ("<str:job>/executionType", portal.job.api.ExecutionType),
    ("<str:job>/release", portal.job.api.Release),
    ("<str:job>/saved", portal.job.api.Saved),
    ("<str:job>/rewind", portal.rewind.api.Rewind),
    ("<str:job>/priority", portal.job.api.Priority),
    ("<str:job>/position", portal.job.api.Position),
    ("<str:job>/ssh", portal.job.api.JobSsh),
    ("<str:job>/attempts", portal.job.history.Attempts),
    ("<str:job>/attempts/<str:number>", portal.job.history.OneAttempt),
    ("<str:job>/events", portal.job.history.Events),
    ("<str:job>/why", portal.waiting.api.JobWhy),
)
_config = _of_jobs(("<str:job>/config", portal.job.api.JobConfig))
_around_a_job = _of_jobs(
    (f"{_TASK}/terminal", portal.terminal.api.TerminalTicket),
    (f"{_TASK}/metrics", portal.metrics.api.TaskMetrics),
    ("<str:job>/metrics/summary", portal.metrics.api.Summary),
    ("<str:job>/services", portal.web_pages.api.Services),
    (f"<str:job>/{_PAGE}/ticket", portal.web_pages.api.OpenTicket),
    (f"<str:job>/{_PAGE}/links", portal.web_pages.api.Link),
    (f"<str:job>/{_PAGE}/shares/<str:kind>/<str:name>", portal.web_pages.api.Share),
    ("<str:job>/tensorboard", portal.web_pages.api.ServeTensorBoard),
)

v1: list[URLPattern] = [
    # What clients poll stands first, as the addresses are tried one after the other.
    path("jobs/validate", portal.lists.api.Validate.as_view(), {"job": "validate"}),
    *(path(f"{root}/stop", portal.lists.api.StopJobs.as_view(), {"job": "stop"}) for root in _ROOTS),
    *(path(root, portal.lists.api.JobList.as_view()) for root in _ROOTS),
    *_one_job,
    *_sign_in,
    path("hosts", portal.hosts.api.Hosts.as_view()),
    path("audit", portal.audit.api.Audit.as_view()),
    path("user", portal.users.api.EarlierUsers.as_view()),
    path("user/<str:username>", portal.users.api.OneUserToo.as_view()),
    path("user/<str:username>/virtualClusters", portal.users.api.put_virtual_clusters.as_view()),
    *_users,
    path("nodes", portal.nodes.api.NodeList.as_view()),
    path("nodes/<node:name>", portal.nodes.api.NodeDetail.as_view()),
    path("nodes/<node:name>/status", portal.nodes.api.NodeStatusView.as_view()),
    path("nodes/<node:name>/gone", portal.nodes.api.NodeGone.as_view()),
    *_vcs,
    *_logs,
    *_job,
    *_config,
    *_around_a_job,
    path("appointments", portal.appointments.api.Appointments.as_view()),
    path("appointments/<int:id>", portal.appointments.api.OneAppointment.as_view()),
    path("service-accounts", portal.users.service_accounts.ServiceAccounts.as_view()),
    path("service-accounts/<str:username>/tokens", portal.users.service_accounts.ServiceTokens.as_view()),
    path("service-accounts/<str:username>/tokens/<int:id>", portal.users.service_accounts.ServiceToken.as_view()),
    path("sign-in/rules", portal.sign_in.api.SignInRules.as_view()),
    path("notices", portal.notices.api.Notices.as_view()),
    path("notices/read", portal.notices.api.NoticesRead.as_view()),
    path("notices/hours", portal.notices.api.NoticeHours.as_view()),
    path("notices/channels", portal.notices.api.Channels.as_view()),
    path("notices/channels/<str:channel>", portal.notices.api.OneChannel.as_view()),
    path("notices/channels/<str:channel>/test", portal.notices.api.ChannelTest.as_view()),
    path("notices/channels/<str:channel>/rules/<str:kind>", portal.notices.api.ChannelRule.as_view()),
    path("notices/deliveries", portal.notices.api.Deliveries.as_view()),
    path("notices/deliveries/<str:delivery>", portal.notices.api.OneDelivery.as_view()),
    path("notices/deliveries/<str:delivery>/again", portal.notices.api.DeliveryAgain.as_view()),
    path("usage", portal.reports.api.Usage.as_view()),
    path("cluster/forecasts", portal.reports.api.Forecasts.as_view()),
    path("cluster/timeline", portal.reports.api.Timeline.as_view()),
    path("cluster/what-if", portal.policy.api.WhatIfView.as_view()),
    path("cluster/replay", portal.policy.api.Replays.as_view()),
    path("cluster/replay/<int:id>", portal.policy.api.OneReplay.as_view()),
    path("sweeps", portal.sweeps.api.Sweeps.as_view()),
    path("sweeps/validate", portal.sweeps.api.ValidateSweep.as_view()),
    path("sweeps/<str:sweep>", portal.sweeps.api.OneSweep.as_view()),
    path("sweeps/<str:sweep>/executionType", portal.sweeps.api.SweepExecutionType.as_view()),
]
v2: list[URLPattern] = [
    *_sign_in,
    path("user", portal.users.api.Users.as_view()),
    path("user/<str:username>", portal.users.api.OneUser.as_view()),
    *_users,
    *_vcs,
    *_logs,
    path("jobs", portal.lists.api_v2.JobListV2.as_view()),
    path("user/<str:username>/jobs", portal.lists.api.JobList.as_view()),
    path("jobs/protocolversion/config", portal.lists.api_v2.ProtocolProbe.as_view()),
    path("jobs/<str:job>/config", portal.lists.api_v2.JobConfigV2.as_view()),
    path("user/<str:username>/jobs/<str:job>/config", portal.job.api.JobConfig.as_view()),
    *_one_job,
    *_job,
]
first_release: list[URLPattern] = [
    path("auth", portal.lists.early.Auth.as_view()),
    path("job", portal.lists.early.EarlyJobs.as_view()),
    path("job/<str:job>", portal.lists.early.EarlyJob.as_view()),
]
