"""A webhook of the user's own, signed as standardwebhooks.com has it, so that its libraries check what comes:
HMAC-SHA256 over the id, the time and the body, by a secret that the two of them share."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time

from jobs.notices.message import NoticeMessage
from jobs.notices.post import SendAnswer, post

_PREFIX = "whsec_"


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(secret: str, uid: str, at: int, body: str) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = hmac.new(key, f"{uid}.{at}.{body}".encode(), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def written(message: NoticeMessage) -> str:
    at = message.at.isoformat(timespec="milliseconds")
    data = {**message.data, "title": message.title, "lines": list(message.lines), "url": message.url}
    return json.dumps({"type": message.kind.type, "timestamp": at, "data": data}, ensure_ascii=False, indent=1)


def send(target: str, secret: str, uid: str, body: str) -> SendAnswer:
    """Raises SendError."""
    at = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "webhook-id": uid,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(secret, uid, at, body),
    }
    return post(target, body.encode(), headers)
