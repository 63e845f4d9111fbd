"""``/token``: a password for a bearer token (v1 contract, 3.4). ``/authn/info``: how to sign in (3.10);
``/authn/basic/login`` is ``/token``. ``/sign-in/rules``: what groups of providers become here."""

from __future__ import annotations

from typing import Annotated, Literal

from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from base.accounts.providers.said import LONGEST
from base.core.values import V1Answer, called
from base.models import SignInRule, User
from clusters.users import entry_rules
from clusters.vcs.rules import MOST_PRIORITY
from portal.shared.api.bodies import STORABLE, Flag, Password, V1Body, V1Matches, WholeNumber, read
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View
from portal.shared.viewer import admin_of
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


_PRIORITY = "The highest for jobs in these; null: as all their users."


class SignInRuleItem(V1Answer):
    provider: str = Field(description="Empty: any.")
    group: str = Field(description="Empty: everybody.")
    letsIn: bool = called("lets_in")
    role: str = Field(description="Empty: user.", json_schema_extra={"enum": ["", *entry_rules.ROLES]})
    virtualClusters: list[str] = called("vcs")
    priority: int | None = Field(description=_PRIORITY)


class SignInRuleList(TypedDict):
    """In the order in which they are read."""

    rules: list[SignInRuleItem]


class SignInRuleBody(V1Body):
    provider: Annotated[str, Field(max_length=32), STORABLE] = ""
    group: Annotated[str, Field(max_length=LONGEST), STORABLE] = ""
    lets_in: Flag = True
    role: Literal["", "auditor", "admin"] = ""
    vcs: Annotated[list[Annotated[str, STORABLE]], Field(max_length=1000)] = Field([], alias="virtualClusters")
    priority: WholeNumber | None = Field(None, ge=0, le=MOST_PRIORITY, description=_PRIORITY)


class SignInRulesBody(V1Body):
    rules: Annotated[list[SignInRuleBody], Field(max_length=entry_rules.MOST)]


class SignInRules(V1View):
    @extend_schema(summary="The rules of sign-in", responses={200: SignInRuleList, **errors(403)})
    def get(self, request: Request) -> Response:
        admin_of(request)
        return Response({"rules": [SignInRuleItem.of(rule) for rule in entry_rules.load_rules()]})

    @extend_schema(
        summary="Let these be all rules of sign-in", request=SignInRulesBody, responses={200: SignInRuleList}
    )
    def put(self, request: Request) -> Response:
        admin, asked = admin_of(request), read(SignInRulesBody, request)
        entry_rules.replace_rules(admin, [SignInRule(**each.model_dump()) for each in asked.rules])
        return self.get(request)


class SignIn(V1Answer):
    authn_type: Literal["basic"] = "basic"
    loginURI: str = "/api/v1/authn/basic/login"
    loginURIMethod: Literal["post"] = "post"


class AuthnInfo(V1View):
    authentication_classes = ()

    @extend_schema(summary="How to sign in", responses=SignIn)
    def get(self, request: Request) -> Response:
        return Response(SignIn.of({}))
