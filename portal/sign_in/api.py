"""``/token``: a password for a bearer token (v1 contract, 3.4). ``/authn/info``: how to sign in (3.10);
``/authn/basic/login`` is ``/token``."""

from __future__ import annotations

from typing import Annotated, Literal

from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from base.core.values import V1Answer
from base.models import User
from portal.shared.api.bodies import Password, V1Body, V1Matches, WholeNumber, read
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.sign_in.passwords import make_token

_NO_USERNAME = r'with value "{value}" fails to match the required pattern: /^[\w.-]+$/'


class TokenRequest(V1Body):
    username: Annotated[str, Field(min_length=1), V1Matches(r"[\w.-]+", _NO_USERNAME)]
    password: Password
    expiration: Annotated[WholeNumber, Field(ge=60, le=604_800, description="Seconds.")] = 86_400


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
        body = read(TokenRequest, request)
        return Response(told(*make_token(request._request, body.username, body.password, body.expiration)))


def told(user: User, token: str) -> TokenAnswer:
    return {
        "user": user.username,
        "token": token,
        "admin": user.is_admin,
        "hasGitHubPAT": user.has_github_pat,
    }


class SignIn(V1Answer):
    authn_type: Literal["basic"] = "basic"
    loginURI: str = "/api/v1/authn/basic/login"
    loginURIMethod: Literal["post"] = "post"


class AuthnInfo(V1View):
    authentication_classes = ()

    @extend_schema(summary="How to sign in", responses=SignIn)
    def get(self, request: Request) -> Response:
        return Response(SignIn.of({}))
