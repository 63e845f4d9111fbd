"""POST /api/v1/token: a password for a bearer token (v1 contract, 3.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from portal.accounts import services
from portal.core.errors import BadRequest
from portal.web.api.openapi import errors
from portal.web.api.v1 import V1View, fields

_FIELDS = ("username", "password", "expiration")
_USERNAME = re.compile(r"[\w.-]+", re.ASCII)
_LEAST, _MOST, _DEFAULT = 60, 604_800, 86_400  # seconds


class TokenRequest(BaseModel):
    username: str = Field(pattern=r"^[\w.-]+$")
    password: str = Field(min_length=6)
    expiration: int = Field(_DEFAULT, ge=_LEAST, le=_MOST, description="Seconds.")


class TokenAnswer(TypedDict):
    user: str
    token: str
    admin: bool
    hasGitHubPAT: bool


class TokenView(V1View):
    authentication_classes = ()  # a bad token in the header must not stop somebody from getting a good one

    @extend_schema(
        summary="A password for a bearer token", request=TokenRequest, responses={200: TokenAnswer, **errors(429)}
    )
    def post(self, request: Request) -> Response:
        username, password, seconds = read(fields(request))
        user, token = services.make_token(request._request, username, password, seconds)
        answer: TokenAnswer = {
            "user": user.username,
            "token": token,
            "admin": user.is_admin,
            "hasGitHubPAT": user.has_github_pat,
        }
        return Response(answer)


def read(data: Mapping[str, Any]) -> tuple[str, str, int]:
    """Username, password, seconds; or BadRequest with the first violation in v1's words."""
    username = _username(data.get("username"), "username" in data)
    password = _password(data.get("password"), "password" in data)
    seconds = _expiration(data.get("expiration", _DEFAULT))
    for name in data:
        if name not in _FIELDS:
            raise BadRequest(f'"{name}" is not allowed')
    return username, password, seconds


def _username(value: Any, given: bool) -> str:
    text = _text("username", value, given)
    if not _USERNAME.fullmatch(text):
        raise _wrong("username", f'with value "{text}" fails to match the required pattern: /^[\\w.-]+$/')
    return text


def _password(value: Any, given: bool) -> str:
    text = _text("password", value, given)
    if len(text) < 6:
        raise _wrong("password", "length must be at least 6 characters long")
    return text


def _expiration(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            pass
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong("expiration", "must be a number")
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise _wrong("expiration", "must be an integer")
    if value < _LEAST:
        raise _wrong("expiration", f"must be larger than or equal to {_LEAST}")
    if value > _MOST:
        raise _wrong("expiration", f"must be less than or equal to {_MOST}")
    return int(value)


def _text(name: str, value: Any, given: bool) -> str:
    if not given:
        raise _wrong(name, "is required")
    if not isinstance(value, str):
        raise _wrong(name, "must be a string")
    if not value:
        raise _wrong(name, "is not allowed to be empty")
    return value


def _wrong(name: str, what: str) -> BadRequest:
    return BadRequest(f'child "{name}" fails because ["{name}" {what}]')
