"""Pages of notices: what a user was told, their channels with rules, and the calls of these."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from base.core.errors import BadRequest, LongshoreError
from base.core.words import count, whole
from jobs.models import NoticeChannel
from jobs.notices import consent, services
from jobs.notices.kinds import KINDS
from jobs.notices.send import MOST_TRIES
from jobs.notices.services import ChannelOwner
from portal.notices import page
from portal.shared.confirm import ask_to_confirm, question
from portal.shared.guard import fresh_page, own_form, own_post
from portal.shared.viewer import user_of

_MOST_MINUTES = 1_000_000


@own_form
def notice_list(request: HttpRequest) -> HttpResponse:
    """What the user was told, newest first. POST marks it as read. Field: up_to."""
    user = user_of(request)
    if request.method == "POST":
        services.mark_read(user, page.cursor_of(request.POST.dict(), "up_to"))
        return redirect("/notices")
    before = page.cursor_of(request.GET.dict())
    lines, older = page.notice_lines(user, before, page.SIZE)
    shown: dict[str, Any] = {
        "lines": lines,
        "older": f"?before={older}" if older else "",
        "newer": "/notices" if before else "",
    }
    unread = [line.row.pk for line in lines if line.row.read_at is None]
    shown |= {"nav": "account", "tab": "list", "up_to": max(unread, default=0), "days": settings.NOTICE_DAYS}
    return render(request, "notices/list.html", shown)


@own_form
@sensitive_post_parameters()
def notice_settings(request: HttpRequest) -> HttpResponse:
    """Channels and rules. POST makes a channel, or sets a rule. Fields: name, kind, target; or rule, channel, minutes,
    gpus, digest, off."""
    owner = _owner(request)
    if request.method != "POST":
        return _settings_page(request, owner)
    try:
        if "rule" in request.POST:
            _set_rule(request, owner)
            return redirect(_back(owner))
        fields = [request.POST.get(name, "") for name in ("name", "kind", "target")]
        row, secret = services.add_channel(owner, *fields)
    except LongshoreError as error:
        return _settings_page(request, owner, error=error.message, typed=request.POST, code=error.status)
    return _settings_page(request, owner, made=row, secret=secret)


def _set_rule(request: HttpRequest, owner: ChannelOwner) -> None:
    values: dict[str, Any] = {}
    for name in ("minutes", "gpus"):
        number = whole(request.POST.get(name) or "0", 7)
        if number is None or number > _MOST_MINUTES:
            raise BadRequest(f"{name} must be a number from 0 to {_MOST_MINUTES:,}.")
        values[name] = number
    values |= {"is_digest": "digest" in request.POST, "is_on": "off" not in request.POST}
    services.set_rule(owner, request.POST.get("channel", ""), request.POST["rule"], values)


def _settings_page(request: HttpRequest, owner: ChannelOwner, *, code: int = 200, **more: Any) -> HttpResponse:
    channels = page.channel_lines(owner)
    hours = services.hours(owner.user)
    shown = {
        "nav": "vcs" if owner.vc else "account",
        "tab": "notices",
        "owner": owner,
        "channels": channels,
        "rules": page.rule_lines(channels),
        "hours": hours,
        "quiet": {name: page.clock_time(getattr(hours, name)) for name in ("begin", "end", "digest")},
        "digest": page.next_digest(owner),
        "kinds": [KINDS[name] for name in owner.kinds],
        "channel_kinds": _channel_kinds(),
        "query": _query(owner),
        "also": f"&{urlencode(_vc(owner))}" if owner.vc else "",
        **more,
    }
    return render(request, "notices/settings.html", shown, status=code)


def _channel_kinds() -> list[tuple[str, str]]:
    return [(kind.value, kind.label) for kind in NoticeChannel.Kind if kind != "mail" or settings.MAIL_SERVER]


@own_post
def quiet_hours(request: HttpRequest) -> HttpResponse:
    """Fields: on, begin, end, weekends, but_gpus, digest, zone; times as 22:00."""
    user = user_of(request)
    values: dict[str, Any] = {name: _minute(request, name) for name in ("begin", "end", "digest")}
    values |= {"is_on": "on" in request.POST, "weekends": "weekends" in request.POST}
    values |= {"but_gpus": 8 if "large" in request.POST else 0, "zone": request.POST.get("zone", "")[:64]}
    services.set_hours(user, values)
    messages.success(request, "Quiet hours and the time of the digest are set.")
    return redirect("/account/notices")


def _minute(request: HttpRequest, name: str) -> int:
    match = re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", request.POST.get(name, "").strip(), re.ASCII)
    if match is None:
        raise BadRequest(f"{name} must be a time such as 22:00.")
    return int(match[1]) * 60 + int(match[2])


@own_post
def delete_rule(request: HttpRequest) -> HttpResponse:
    """Fields: rule, and each channel."""
    owner = _owner(request)
    for channel in request.POST.getlist("channel"):
        services.delete_rule(owner, channel, request.POST.get("rule", ""))
    return redirect(_back(owner))


@own_form
def delete_channel(request: HttpRequest, channel: str) -> HttpResponse:
    owner = _owner(request)
    services.channel_of(owner, channel)
    if request.method == "POST":
        services.delete_channel(owner, channel)
        messages.success(request, f"Channel {channel} is deleted.")
        return redirect(_back(owner))
    effect = "Its rules go with it, and what still waits for it is not sent."
    return ask_to_confirm(
        request, _back(owner), nav="account", **question(f"Delete channel {channel}?", effect, "Delete", keep="Keep it")
    )


def _for_channel(do: Callable[[ChannelOwner, str], str]) -> Callable[..., HttpResponseBase]:
    @own_post
    def view(request: HttpRequest, channel: str) -> HttpResponse:
        owner = _owner(request)
        try:
            messages.success(request, do(owner, channel))
        except LongshoreError as error:
            messages.error(request, error.message)
        return redirect(f"/account/notices/calls?{urlencode({'channel': channel, **_vc(owner)})}")

    return view


def _test(owner: ChannelOwner, channel: str) -> str:
    sent = services.test_channel(owner, channel)
    if sent.notice.kind == consent.KIND:
        return "The mail that asks whether notices may come is on its way."
    return "A test is on its way. Its answer stands below as soon as there is one."


def _send_waiting(owner: ChannelOwner, channel: str) -> str:
    waiting = count(services.send_waiting(owner, channel), "notice that waits is", "notices that wait are")
    return f"{waiting} sent now."


test_channel = _for_channel(_test)
send_waiting = _for_channel(_send_waiting)


@own_post
def send_again(request: HttpRequest, delivery: str) -> HttpResponse:
    owner = _owner(request)
    services.send_again(owner, delivery)
    messages.success(request, "It is sent once more, with the same id.")
    target = request.POST.get("next", "")
    return redirect(target if target.startswith("/account/notices/calls") else "/account/notices/calls")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """Where a mail leads that asks whether notices may come. Nobody needs to be signed in. Only POST changes something,
    as what looks for viruses in mail opens links. Field: answer (confirm or refuse)."""
    said = request.POST.get("answer", "")
    if request.method == "POST":
        if said not in ("confirm", "refuse"):
            raise BadRequest("Answer: confirm or refuse.")
        consent.answer(token, confirms=said == "confirm")
    return render(request, "notices/address.html", {"asked": consent.asked_for(token), "said": said})


@fresh_page
def calls(request: HttpRequest) -> HttpResponse:
    """The deliveries of one channel, or of all. Query: channel, state, kind, before, open."""
    owner, asked = _owner(request), request.GET.dict()
    filters = {name: asked.get(name, "") for name in ("channel", "state", "kind")}
    rows, older = page.page_of(page.deliveries_of(owner, **filters), page.cursor_of(asked), page.SIZE)
    channels = page.channel_lines(owner)
    given = {name: value for name, value in filters.items() if value} | _vc(owner)
    shown = {
        "nav": "vcs" if owner.vc else "account",
        "tab": "calls",
        "owner": owner,
        "asked": filters,
        "lines": [page.DeliveryLine(row) for row in rows],
        "open": asked.get("open", ""),
        "channels": channels,
        "chosen": next((line for line in channels if line.row.name == filters["channel"]), None),
        "states": page.STATES,
        "tally": page.tally(owner, filters["channel"], timezone.now()),
        "query": _query(owner),
        "days": settings.NOTICE_DAYS,
        "most_tries": MOST_TRIES,
        "given": urlencode(given),
        "older": f"?{urlencode({**given, 'before': older})}" if older else "",
        "newer": f"?{urlencode(given)}" if asked.get("before") else "",
    }
    return render(request, "notices/calls.html", shown)


def _owner(request: HttpRequest) -> ChannelOwner:
    return services.owner(user_of(request), request.GET.get("vc", ""))


def _vc(owner: ChannelOwner) -> dict[str, str]:
    return {"vc": owner.vc} if owner.vc else {}


def _query(owner: ChannelOwner) -> str:
    return f"?{urlencode(_vc(owner))}" if owner.vc else ""


def _back(owner: ChannelOwner) -> str:
    return f"/account/notices{_query(owner)}"
