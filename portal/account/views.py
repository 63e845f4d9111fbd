"""Pages of one's own account: the password, API tokens and public SSH keys. A new token is shown once,
in the answer to its form."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import auth, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters

from base.accounts import services
from base.accounts.scopes import SAYS
from base.core.errors import BadRequest, LongshoreError, NotFound
from base.core.words import count, whole
from base.models import Identity, User, UserKey
from clusters.users import entry
from clusters.users.queries import find_service_account
from portal.shared.confirm import ask_to_confirm, question
from portal.shared.guard import own_form, own_post
from portal.shared.viewer import admin_of, user_of
from portal.sign_in import passwords
from portal.sign_in.providers import link_text
from portal.users.page import user_url

DAYS = (7, 30, 90, 365)
_DEFAULT_DAYS = 30
_CLIENTS = 20  # on a page


@own_form
@sensitive_post_parameters()
def account(request: HttpRequest) -> HttpResponse:
    """Fields: old_password, new_password, again. Says what changing the password ends."""
    if request.method != "POST":
        return _account_page(request)
    try:
        _change_password(request)
    except LongshoreError as error:
        return _account_page(request, error)
    messages.success(request, "Your password is changed. Your API tokens and your other sessions are ended.")
    return redirect("/account")


def _account_page(request: HttpRequest, error: LongshoreError | None = None) -> HttpResponse:
    """Context: ``error``, ``linked``: how they sign in beside a password, ``others``: how they could."""
    user = user_of(request)
    linked = list(Identity.objects.filter(user=user).order_by("provider"))
    known = {identity.issuer for identity in linked}
    page = {
        "error": error.message if error else "",
        "linked": [(identity, settings.SIGN_IN.get(identity.provider)) for identity in linked],
        "others": [provider for provider in settings.SIGN_IN.values() if provider.issuer not in known],
        "link": link_text(request) if settings.SIGN_IN else "",
    }
    return render(request, "account/account.html", page, status=error.status if error else 200)


@own_post
@sensitive_post_parameters("password")
def link_directory(request: HttpRequest, name: str) -> HttpResponse:
    """Fields: username, password: in the directory."""
    try:
        username, password = request.POST.get("username", ""), request.POST.get("password", "")
        title = passwords.link_directory(request, user_of(request), name, username, password)
    except LongshoreError as error:
        return _account_page(request, error)
    messages.success(request, f"From now on you also sign in by {title}.")
    return redirect("/account")


@own_post
def unlink(request: HttpRequest, identity_id: int) -> HttpResponse:
    entry.unlink(user_of(request), identity_id)
    messages.success(request, "It no longer signs you in here.")
    return redirect("/account")


def _change_password(request: HttpRequest) -> None:
    user = user_of(request)
    new = request.POST.get("new_password", "")
    if new != request.POST.get("again", ""):
        raise BadRequest("The two new passwords differ.")
    passwords.change_password(request, user, request.POST.get("old_password", ""), new)
    auth.update_session_auth_hash(request, user)


@own_form
def tokens(request: HttpRequest) -> HttpResponse:
    """POST makes one. Fields: name, days, scope (many)."""
    return _tokens(request, user_of(request))


@own_form
def service_tokens(request: HttpRequest, username: str) -> HttpResponse:
    """The same for a service account, which has no password. For admins."""
    admin_of(request)
    return _tokens(request, find_service_account(username))


def _tokens(request: HttpRequest, user: User) -> HttpResponse:
    if request.method != "POST":
        return _tokens_page(request, user)
    name, days, scopes = request.POST.get("name", ""), request.POST.get("days", ""), request.POST.getlist("scope")
    try:
        token = services.create_token(user, name, whole(days, 5) or 0, scopes, by=user_of(request))
    except LongshoreError as error:
        return _tokens_page(
            request, user, error=error.message, name=name, chosen=days, scopes=scopes, code=error.status
        )
    return _tokens_page(request, user, token=token, made=name.strip())


@own_form
def revoke_token(request: HttpRequest, token_id: int, username: str = "") -> HttpResponse:
    """``username``: of a service account, for admins."""
    if username:
        admin_of(request)
    user = find_service_account(username) if username else user_of(request)
    back = f"{user_url(username)}/tokens" if username else "/account/tokens"
    if request.method == "POST":
        if services.revoke_token(user, token_id, by=user_of(request)):
            messages.success(request, "The token was revoked. Whoever uses it is refused from now on.")
        else:
            messages.success(request, "The token had ended already.")
        return redirect(back)
    token = services.live_tokens(user).filter(pk=token_id).first()
    if token is None:
        raise NotFound("There is no such token.")
    title = f"Revoke {token.name or 'the token of a client that signed in'}?"
    effect = "Every script and client that uses it is refused at once. Your jobs go on."
    return ask_to_confirm(request, back, nav="account", **question(title, effect, "Revoke", keep="Keep it"))


@own_form
def revoke_sign_ins(request: HttpRequest) -> HttpResponse:
    """Field, of the address too: client."""
    client = (request.POST if request.method == "POST" else request.GET).get("client", "").replace("\x00", "")
    if request.method == "POST":
        number = services.revoke_sign_ins(user_of(request), client)
        messages.success(request, f"{count(number, 'token was', 'tokens were')} revoked.")
        return redirect("/account/tokens")
    effect = "It is refused at once, and can sign in again with the password. Your jobs go on."
    asked = question(f"Revoke the tokens of {client or 'a client'}?", effect, "Revoke", keep="Keep them", client=client)
    return ask_to_confirm(request, "/account/tokens", nav="account", **asked)


def _tokens_page(
    request: HttpRequest, user: User, *, chosen: str = str(_DEFAULT_DAYS), code: int = 200, **more: Any
) -> HttpResponse:
    """Tokens with a name, and a page of those of clients that sign in by themselves."""
    at = whole(request.GET.get("page", ""), 6) or 1
    clients = list(services.sign_ins(user)[(at - 1) * _CLIENTS : at * _CLIENTS + 1])
    page = {
        "nav": "account",
        "tab": "tokens",
        "service": user if user.owner else None,
        "url": f"{user_url(user.username)}/tokens" if user.owner else "/account/tokens",
        "rows": list(services.live_tokens(user).exclude(name="")),
        "clients": clients[:_CLIENTS],
        "newer": f"?page={at - 1}#clients" if at > 1 else "",
        "older": f"?page={at + 1}#clients" if len(clients) > _CLIENTS else "",
        "days": DAYS,
        "chosen": chosen,
        "all_scopes": SAYS,
        **more,
    }
    return render(request, "account/tokens.html", page, status=code)


@own_form
def keys(request: HttpRequest) -> HttpResponse:
    """POST adds one. Field: key."""
    if request.method != "POST":
        return _keys_page(request)
    text = request.POST.get("key", "")
    try:
        key = services.add_key(user_of(request), text)
    except LongshoreError as error:
        return _keys_page(request, error=error.message, text=text[:5000], code=error.status)
    messages.success(request, f"The key {key.name or key.fingerprint} goes into every container you start from now on.")
    return redirect("/account/keys")


@own_form
def remove_key(request: HttpRequest, key_id: int) -> HttpResponse:
    user = user_of(request)
    if request.method == "POST":
        services.remove_key(user, key_id)
        messages.success(request, "The key is removed. Containers that run keep it until they end.")
        return redirect("/account/keys")
    key = UserKey.objects.filter(user=user, pk=key_id).first()
    if key is None:
        raise NotFound("You have no such key.")
    title = f"Remove {key.name or key.fingerprint}?"
    effect = "Containers you start from now on do not let it in. Those that run keep it until they end."
    return ask_to_confirm(request, "/account/keys", nav="account", **question(title, effect, "Remove", keep="Keep it"))


def _keys_page(request: HttpRequest, *, code: int = 200, **more: Any) -> HttpResponse:
    rows = UserKey.objects.filter(user=user_of(request)).order_by("id")
    return render(request, "account/keys.html", {"nav": "account", "tab": "keys", "rows": rows, **more}, status=code)
