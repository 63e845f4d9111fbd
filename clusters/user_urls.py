"""Routes about users and groups. v0.14's are below both ``/api/v1/`` and ``/api/v2/``; v0.9's below v1 only."""

from __future__ import annotations

from django.urls import URLPattern, path

from clusters import group_api, user_api, user_v2_api

_BOTH: list[URLPattern] = [
    path("user/<str:username>/password", user_v2_api.Password.as_view()),
    path("user/<str:username>/virtualcluster", user_v2_api.VirtualClusters.as_view()),
    path("user/<str:username>/admin", user_v2_api.Admin.as_view()),
    path("user/<str:username>/email", user_v2_api.Email.as_view()),
    path("user/<str:username>/extension", user_v2_api.Extension.as_view()),
    path("user/<str:username>/grouplist", user_v2_api.Grouplist.as_view()),
    path("user/<str:username>/group", user_v2_api.Membership.as_view()),
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
    path("user", user_v2_api.Users.as_view()),
    path("user/<str:username>", user_v2_api.OneUser.as_view()),
    *_BOTH,
]
