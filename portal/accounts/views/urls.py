"""Pages of one's own account."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.accounts.views import account, keys, tokens

urlpatterns: list[URLPattern] = [
    path("login", account.login, name="login"),
    path("logout", account.logout, name="logout"),
    path("account", account.account, name="account"),
    path("account/tokens", tokens.tokens, name="tokens"),
    path("account/tokens/<int:token_id>/revoke", tokens.revoke, name="token-revoke"),
    path("account/keys", keys.keys, name="keys"),
    path("account/keys/<int:key_id>/remove", keys.remove, name="key-remove"),
]
