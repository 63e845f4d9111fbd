"""Routes about users and groups. v0.14's are below both ``/api/v1/`` and ``/api/v2/``; v0.9's below v1 only."""

from __future__ import annotations

from django.urls import URLPattern, path

from clusters.users import api as user_api
from clusters.users import api_v2, group_api

_BOTH: list[URLPattern] = [
    path("user/<str:username>/password", api_v2.Password.as_view()),
    path("user/<str:username>/virtualcluster", api_v2.VirtualClusters.as_view()),
    path("user/<str:username>/admin", api_v2.Admin.as_view()),
    path("user/<str:username>/email", api_v2.Email.as_view()),
    path("user/<str:username>/storequota", api_v2.StoreQuota.as_view()),
    path("user/<str:username>/extension", api_v2.Extension.as_view()),
    path("user/<str:username>/grouplist", api_v2.Grouplist.as_view()),
    path("user/<str:username>/group", api_v2.Membership.as_view()),
    path("user/<str:username>/githubPAT", user_api.UserGithubPat.as_view()),
    path("group", group_api.Groups.as_view()),
    path("group/<str:group>", group_api.OneGroup.as_view()),
    path("group/<str:group>/extension", group_api.GroupExtension.as_view()),
    path("group/<str:group>/description", group_api.GroupDescription.as_view()),
    path("group/<str:group>/externalname", group_api.GroupExternalName.as_view()),
    path("group/<str:group>/userlist", group_api.GroupUsers.as_view()),
]
v1: list[URLPattern] = [
    path("user", user_api.Users.as_view()),
    path("user/<str:username>", user_api.OneUserToo.as_view()),
    path("user/<str:username>/virtualClusters", user_api.UserVirtualClusters.as_view()),
    *_BOTH,
]
v2: list[URLPattern] = [
    path("user", api_v2.Users.as_view()),
    path("user/<str:username>", api_v2.OneUser.as_view()),
    *_BOTH,
]
