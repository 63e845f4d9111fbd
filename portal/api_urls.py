"""Every route of the API: v1, which is below ``/api/v1/``, v2 and those of the very first release. None has a slash at
its end; a request may have one.

A route about one job exists below ``/jobs`` (where a name may be ``user~job``) and below ``/user/:username/jobs``.
"""

from __future__ import annotations

from django.urls import URLPattern, path

import portal.nodes.paths  # noqa: F401 - makes <node:name> known
from portal.appointments.api import Appointments, OneAppointment
from portal.audit.api import Audit
from portal.hosts.api import Hosts
from portal.job.api import ExecutionType, JobConfig, JobSsh, OneJob, Position, Priority, Release, Saved
from portal.job.history import Attempts, Events, OneAttempt
from portal.lists.api import JobList, StopJobs, Validate
from portal.lists.api_v2 import JobConfigV2, JobListV2, ProtocolProbe
from portal.lists.early import Auth, EarlyJob, EarlyJobs
from portal.logs.api import JobLogs, TaskLog
from portal.logs.container_log import ContainerLog, ContainerLogs
from portal.metrics.api import Summary, TaskMetrics
from portal.nodes.api import NodeDetail, NodeGone, NodeList, NodeStatusView
from portal.notices.api import (
    ChannelRule,
    Channels,
    ChannelTest,
    Deliveries,
    DeliveryAgain,
    NoticeHours,
    Notices,
    NoticesRead,
    OneChannel,
    OneDelivery,
)
from portal.policy.api import OneReplay, Replays, WhatIfView
from portal.reports.api import Forecasts, Timeline, Usage
from portal.rewind.api import Rewind
from portal.shared.api.v1 import V1View
from portal.sign_in.api import AuthnInfo, SignInRules, TokenView
from portal.sign_in.command import TokenOfCode
from portal.sweeps.api import OneSweep, SweepExecutionType, Sweeps, ValidateSweep
from portal.terminal.api import TerminalTicket
from portal.users.api import (
    EarlierUsers,
    Groups,
    GroupUsers,
    Membership,
    OneGroup,
    OneUser,
    OneUserToo,
    Password,
    Users,
    put_admin,
    put_email,
    put_extension,
    put_external_name,
    put_github_pat,
    put_grants,
    put_group_description,
    put_group_extension,
    put_grouplist,
    put_store_quota,
    put_virtual_clusters,
)
from portal.users.service_accounts import ServiceAccounts, ServiceToken, ServiceTokens
from portal.vcs.api import OneVirtualCluster, VirtualClusters, VirtualClusterStatus
from portal.waiting.api import JobWhy
from portal.web_pages.api import Link, OpenTicket, ServeTensorBoard, Services, Share

_ROOTS = ("jobs", "user/<str:username>/jobs")
_TASK = "<str:job>/taskRoles/<str:role>/<int:index>"
_PAGE = "services/<str:role>/<int:index>/<str:label>"

_sign_in = [
    path("token", TokenView.as_view()),
    path("token/code", TokenOfCode.as_view()),
    path("authn/info", AuthnInfo.as_view()),
    path("authn/basic/login", TokenView.as_view()),
]
_vcs = [
    path("virtual-clusters", VirtualClusters.as_view()),
    path("virtual-clusters/<str:vc>", OneVirtualCluster.as_view()),
    path("virtual-clusters/<str:vc>/status", VirtualClusterStatus.as_view()),
]
# v0.14's, below v1 and v2 alike. Of ``/user`` and ``/user/:username`` there are two kinds: v1's are v0.9's to v0.13's.
_users = [
    path("user/<str:username>/password", Password.as_view()),
    path("user/<str:username>/virtualcluster", put_grants.as_view()),
    path("user/<str:username>/admin", put_admin.as_view()),
    path("user/<str:username>/email", put_email.as_view()),
    path("user/<str:username>/storequota", put_store_quota.as_view()),
    path("user/<str:username>/extension", put_extension.as_view()),
    path("user/<str:username>/grouplist", put_grouplist.as_view()),
    path("user/<str:username>/group", Membership.as_view()),
    path("user/<str:username>/githubPAT", put_github_pat.as_view()),
    path("group", Groups.as_view()),
    path("group/<str:group>", OneGroup.as_view()),
    path("group/<str:group>/extension", put_group_extension.as_view()),
    path("group/<str:group>/description", put_group_description.as_view()),
    path("group/<str:group>/externalname", put_external_name.as_view()),
    path("group/<str:group>/userlist", GroupUsers.as_view()),
]


def _of_jobs(*routes: tuple[str, type[V1View]]) -> list[URLPattern]:
    """These routes below a job's two addresses."""
    return [path(f"{root}/{route}", view.as_view()) for root in _ROOTS for route, view in routes]


_logs = _of_jobs(
    ("<str:job>/logs", JobLogs),
    (f"{_TASK}/logs/<int:attempt>", ContainerLogs),
    (f"{_TASK}/logs/<str:stream>", TaskLog),
    (f"{_TASK}/logs/<int:attempt>/<str:stream>", ContainerLog),
)
_one_job = _of_jobs(("<str:job>", OneJob))
_job = _of_jobs(
    ("<str:job>/executionType", ExecutionType),
    ("<str:job>/release", Release),
    ("<str:job>/saved", Saved),
    ("<str:job>/rewind", Rewind),
    ("<str:job>/priority", Priority),
    ("<str:job>/position", Position),
    ("<str:job>/ssh", JobSsh),
    ("<str:job>/attempts", Attempts),
    ("<str:job>/attempts/<str:number>", OneAttempt),
    ("<str:job>/events", Events),
    ("<str:job>/why", JobWhy),
)
_config = _of_jobs(("<str:job>/config", JobConfig))
_around_a_job = _of_jobs(
    (f"{_TASK}/terminal", TerminalTicket),
    (f"{_TASK}/metrics", TaskMetrics),
    ("<str:job>/metrics/summary", Summary),
    ("<str:job>/services", Services),
    (f"<str:job>/{_PAGE}/ticket", OpenTicket),
    (f"<str:job>/{_PAGE}/links", Link),
    (f"<str:job>/{_PAGE}/shares/<str:kind>/<str:name>", Share),
    ("<str:job>/tensorboard", ServeTensorBoard),
)

v1: list[URLPattern] = [
    # What clients poll stands first, as the addresses are tried one after the other.
    path("jobs/validate", Validate.as_view(), {"job": "validate"}),
    *(path(f"{root}/stop", StopJobs.as_view(), {"job": "stop"}) for root in _ROOTS),
    *(path(root, JobList.as_view()) for root in _ROOTS),
    *_one_job,
    *_sign_in,
    path("hosts", Hosts.as_view()),
    path("audit", Audit.as_view()),
    path("user", EarlierUsers.as_view()),
    path("user/<str:username>", OneUserToo.as_view()),
    path("user/<str:username>/virtualClusters", put_virtual_clusters.as_view()),
    *_users,
    path("nodes", NodeList.as_view()),
    path("nodes/<node:name>", NodeDetail.as_view()),
    path("nodes/<node:name>/status", NodeStatusView.as_view()),
    path("nodes/<node:name>/gone", NodeGone.as_view()),
    *_vcs,
    *_logs,
    *_job,
    *_config,
    *_around_a_job,
    path("appointments", Appointments.as_view()),
    path("appointments/<int:id>", OneAppointment.as_view()),
    path("service-accounts", ServiceAccounts.as_view()),
    path("service-accounts/<str:username>/tokens", ServiceTokens.as_view()),
    path("service-accounts/<str:username>/tokens/<int:id>", ServiceToken.as_view()),
    path("sign-in/rules", SignInRules.as_view()),
    path("notices", Notices.as_view()),
    path("notices/read", NoticesRead.as_view()),
    path("notices/hours", NoticeHours.as_view()),
    path("notices/channels", Channels.as_view()),
    path("notices/channels/<str:channel>", OneChannel.as_view()),
    path("notices/channels/<str:channel>/test", ChannelTest.as_view()),
    path("notices/channels/<str:channel>/rules/<str:kind>", ChannelRule.as_view()),
    path("notices/deliveries", Deliveries.as_view()),
    path("notices/deliveries/<str:delivery>", OneDelivery.as_view()),
    path("notices/deliveries/<str:delivery>/again", DeliveryAgain.as_view()),
    path("usage", Usage.as_view()),
    path("cluster/forecasts", Forecasts.as_view()),
    path("cluster/timeline", Timeline.as_view()),
    path("cluster/what-if", WhatIfView.as_view()),
    path("cluster/replay", Replays.as_view()),
    path("cluster/replay/<int:id>", OneReplay.as_view()),
    path("sweeps", Sweeps.as_view()),
    path("sweeps/validate", ValidateSweep.as_view()),
    path("sweeps/<str:sweep>", OneSweep.as_view()),
    path("sweeps/<str:sweep>/executionType", SweepExecutionType.as_view()),
]
v2: list[URLPattern] = [
    *_sign_in,
    path("user", Users.as_view()),
    path("user/<str:username>", OneUser.as_view()),
    *_users,
    *_vcs,
    *_logs,
    path("jobs", JobListV2.as_view()),
    path("user/<str:username>/jobs", JobList.as_view()),
    path("jobs/protocolversion/config", ProtocolProbe.as_view()),
    path("jobs/<str:job>/config", JobConfigV2.as_view()),
    path("user/<str:username>/jobs/<str:job>/config", JobConfig.as_view()),
    *_one_job,
    *_job,
]
first_release: list[URLPattern] = [
    path("auth", Auth.as_view()),
    path("job", EarlyJobs.as_view()),
    path("job/<str:job>", EarlyJob.as_view()),
]
