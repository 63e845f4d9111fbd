"""Which way a channel of each kind goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobs.models import NoticeChannel
from jobs.notices.channels import chat, mail, webhook
from jobs.notices.message import NoticeMessage
from jobs.notices.post import SendAnswer, check_url

Kind = NoticeChannel.Kind


@dataclass(frozen=True, slots=True)
class Way:
    """``check`` of a target raises BadRequest, and returns it as it is kept. ``shown`` is what the page of calls has of
    a message. ``send`` has the target, the secret, the id, the message and what is shown of it; it raises SendError.
    ``gathers``: several notices may go as one."""

    check: Callable[[str], str]
    shown: Callable[[NoticeMessage], str]
    send: Callable[[str, str, str, NoticeMessage, str], SendAnswer]
    gathers: bool = True


WAYS = {
    Kind.MAIL: Way(mail.check_address, mail.text, lambda to, _, uid, message, __: mail.send(to, uid, message)),
    Kind.SLACK: Way(check_url, chat.slack, lambda to, _, __, ___, body: chat.send(to, body)),
    Kind.TEAMS: Way(check_url, chat.teams, lambda to, _, __, ___, body: chat.send(to, body)),
    Kind.WEBHOOK: Way(
        check_url,
        webhook.written,
        lambda to, secret, uid, _, body: webhook.send(to, secret, uid, body),
        gathers=False,
    ),
}
