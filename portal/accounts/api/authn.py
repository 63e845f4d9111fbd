"""``/authn/info`` (v1 contract, 3.10): how to sign in. ``/authn/basic/login`` is ``/token``."""

from __future__ import annotations

from typing import Literal

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from portal.web.api.v1 import V1View


class SignIn(TypedDict):
    authn_type: Literal["basic"]
    loginURI: str
    loginURIMethod: Literal["post"]


class AuthnInfo(V1View):
    authentication_classes = ()

    @extend_schema(summary="How to sign in", responses=SignIn)
    def get(self, request: Request) -> Response:
        answer: SignIn = {
            "authn_type": "basic",
            "loginURI": "/api/v1/authn/basic/login",
            "loginURIMethod": "post",
        }
        return Response(answer)
