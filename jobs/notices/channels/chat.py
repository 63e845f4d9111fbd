"""Chats: Slack and what takes its messages (Mattermost, Rocket.Chat), and Teams' workflows, which take cards."""

from __future__ import annotations

import json
import re
from typing import Any

from jobs.notices.message import NoticeMessage
from jobs.notices.post import SendAnswer, post

_HEADERS = {"Content-Type": "application/json"}
_SLACK = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKS = re.compile(r"([\\`*_\[\]()#~<>|])")


def slack(message: NoticeMessage) -> str:
    return json.dumps({"text": "\n".join(_slack_lines(message))}, ensure_ascii=False, indent=1)


def _slack_lines(message: NoticeMessage) -> list[str]:
    lines = [f"*<{message.url}|{_slack_text(message.title)}>*", *map(_slack_text, message.lines)]
    return lines + [line for part in message.parts for line in _slack_lines(part)]


def _slack_text(text: str) -> str:
    """What Slack takes for no command: ``<!channel>`` would call everybody."""
    return "".join(_SLACK.get(sign, sign) for sign in text)


def teams(message: NoticeMessage) -> str:
    blocks = [block for one in (message, *message.parts) for block in _blocks(one)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
        "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": message.url}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return json.dumps({"type": "message", "attachments": [attachment]}, ensure_ascii=False, indent=1)


def _blocks(message: NoticeMessage) -> list[dict[str, Any]]:
    colour = "Attention" if message.kind.bad else "Default"
    title = {"weight": "Bolder", "color": colour, "text": _teams_text(message.title)}
    return [
        {"type": "TextBlock", "wrap": True, **each}
        for each in (title, *({"text": _teams_text(line)} for line in message.lines))
    ]


def _teams_text(text: str) -> str:
    """Teams reads Markdown."""
    return _MARKS.sub(r"\\\1", text)


def send(target: str, body: str) -> SendAnswer:
    """Raises SendError."""
    return post(target, body.encode(), _HEADERS)
