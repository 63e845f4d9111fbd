"""Signing in by an OpenID provider: who gets in, who does not, and what each of them is told."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from django.contrib.sessions.models import Session
from django.test import Client

from base.accounts.providers import oidc, state
from base.core.errors import ProviderUnavailable
from base.models import AuditEvent, FormerUser, Identity, SignInRule, User
from tests.conftest import PASSWORD
from tests.helpers import until
from tests.oidc_provider import OidcProvider, oidc_provider

pytestmark = pytest.mark.django_db
Browse = Callable[[User | None], Client]


@pytest.fixture
def lab(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[OidcProvider]:
    """A provider that lets everybody in, as mira unless a test says otherwise, and that is asked again at once."""
    monkeypatch.setattr(state, "PAUSE", 0.0)
    SignInRule.objects.create(place=1, provider="lab")
    with oidc_provider() as provider:
        settings.SIGN_IN = provider.settings()
        settings.PUBLIC_URL = "http://testserver"
        yield provider


def sign_in(client: Client, lab: OidcProvider, address: str = "/sign-in/lab") -> Any:
    """The portal's answer to the browser that comes back."""
    begun = client.get(address)
    assert begun.status_code == 302, begun.content.decode()
    return client.get(lab.sign_in(begun.headers["Location"]))


def told(answer: Any) -> str:
    """The sentence of a sign-in that was refused; and nobody is signed in."""
    assert answer.status_code in (403, 503), answer
    assert not answer.wsgi_request.user.is_authenticated
    error: str = answer.context["error"]
    return error


def test_who_is_new_gets_an_account_without_a_password_and_is_no_admin(client: Client, lab: OidcProvider) -> None:
    lab.person |= {"email": "mira@lab.example", "email_verified": True, "groups": ["vision", "staff"]}
    answer = sign_in(client, lab, "/sign-in/lab?next=/jobs?state=FAILED")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/jobs?state=FAILED")
    user = User.objects.get()
    assert (user.username, user.email, user.is_admin) == ("mira", "mira@lab.example", False)
    assert not user.has_usable_password()
    assert client.get("/account").context["user"] == user
    assert client.session.get_expiry_age() == 12 * 3600
    assert Identity.objects.get().groups == ["vision", "staff"]
    row = AuditEvent.objects.get(action="login")
    assert (row.actor, row.data) == ("mira", {"provider": "lab"})
    client.post("/logout")
    assert client.get("/login").context["last"].name == "lab"
    assert sign_in(client, lab).headers["Location"] == "/"
    assert User.objects.count() == 1


def test_it_signs_in_at_a_provider_of_others(client: Client, lab: OidcProvider, settings: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Authlib tells who uses its older names
        import oidc_provider_mock as other

        claims = {"preferred_username": "Mira.Tan", "groups": ["vision"], "email": "m@lab.example"}
        with other.run_server_in_thread(
            user_claims=[other.User(sub="42", claims=claims)], require_nonce=True
        ) as server:
            settings.SIGN_IN = lab.settings(issuer=f"http://localhost:{server.server_port}")
            there = requests.Session()
            answer = there.post(client.get("/sign-in/lab").headers["Location"], {"sub": "42"}, allow_redirects=False)
            back = answer.headers["Location"]
            assert client.get(back).status_code == 302
            kept = Identity.objects.get()
            assert (kept.user.username, kept.user.email, kept.subject, kept.groups) == (
                "Mira.Tan",
                "",
                "42",
                ["vision"],
            )
            leave = client.post("/logout").context["sign_out"]["address"]
            assert leave.startswith(settings.SIGN_IN["lab"].issuer)
            assert there.get(leave).status_code == 200 and "http://testserver/login" in there.get(leave).text
            refused = {"sub": "42", "action": "deny"}
            answer = there.post(client.get("/sign-in/lab").headers["Location"], refused, allow_redirects=False)
            assert "access_denied" in answer.headers["Location"]
            assert told(client.get(answer.headers["Location"]))


def test_it_asks_with_pkce_and_a_state_and_a_nonce_that_are_new_each_time(client: Client, lab: OidcProvider) -> None:
    asked = [parse_qs(urlsplit(client.get("/sign-in/lab").headers["Location"]).query) for _ in range(2)]
    for query in asked:
        assert query["code_challenge_method"] == ["S256"] and query["response_type"] == ["code"]
        assert query["redirect_uri"] == ["http://testserver/sign-in/lab/back"]
    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name] and len(asked[0][name][0]) >= 43
    assert not Session.objects.exists()


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "//elsewhere", "foo", "/" + "x" * 3000])
def test_it_goes_on_to_own_pages_alone(client: Client, lab: OidcProvider, target: str) -> None:
    answer = sign_in(client, lab, f"/sign-in/lab?next={target}")
    assert answer.headers["Location"] == "/"


def test_claims_that_the_token_lacks_are_asked_of_userinfo_and_believed_for_the_same_person_alone(
    client: Client, lab: OidcProvider
) -> None:
    lab.person |= {"groups": ["vision"]}
    lab.lies["only in userinfo"] = ("groups", "preferred_username")
    sign_in(client, lab)
    assert Identity.objects.get().user.username == "mira" and Identity.objects.get().groups == ["vision"]
    lab.lies["userinfo"] = {"sub": "2", "groups": ["admins"]}
    sign_in(client, lab)
    assert Identity.objects.get().groups == []


def test_new_keys_of_the_provider_are_read(client: Client, lab: OidcProvider) -> None:
    sign_in(client, lab)
    lab.kid = "second"
    assert sign_in(client, lab).status_code == 302
    assert lab.asked.count("/keys") == 2


def test_a_secret_may_be_sent_as_a_field(client: Client, lab: OidcProvider) -> None:
    lab.lies["addresses"] = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert sign_in(client, lab).status_code == 302


BEGIN_AGAIN = "No sign-in was begun in this browser in the last 10 minutes. Begin at http://testserver/login."
OF_ANOTHER_TIME = "What Lab account says of you is from another time: its clock and that of this portal differ."
ELSEWHERE = "What Lab account says of you cannot be believed: it is not signed by it, or not for this portal."


def test_a_state_that_is_not_ours_and_an_answer_that_comes_twice(client: Client, lab: OidcProvider) -> None:
    address = lab.sign_in(client.get("/sign-in/lab").headers["Location"])
    assert told(Client().get(address)) == BEGIN_AGAIN
    other = client.get(f"{address}&state=of-somebody-else")
    assert told(other).startswith("This sign-in was not begun in this browser")
    assert told(client.get(address)) == BEGIN_AGAIN
    again = lab.sign_in(client.get("/sign-in/lab").headers["Location"])
    kept = client.cookies["signing-in"].value
    assert client.get(again).status_code == 302
    client.post("/logout")
    client.cookies["signing-in"] = kept
    assert told(client.get(again)).startswith("Lab account does not take this sign-in: it was used before")


def test_what_begins_at_one_provider_does_not_end_at_another(client: Client, lab: OidcProvider, settings: Any) -> None:
    settings.SIGN_IN = {**settings.SIGN_IN, **lab.settings("other", issuer="http://127.0.0.1:1")}
    address = lab.sign_in(client.get("/sign-in/lab").headers["Location"])
    assert told(client.get(address.replace("/lab/", "/other/"))) == BEGIN_AGAIN
    address = lab.sign_in(client.get("/sign-in/lab").headers["Location"])
    assert told(client.get(f"{address}&iss=http://elsewhere")).startswith("The answer is not of Lab account")
    assert client.get("/sign-in/nowhere").status_code == 404


@pytest.mark.parametrize(
    ("lies", "says"),
    [
        ({"claims": {"nonce": "of another"}}, "What Lab account says belongs to another sign-in. Begin again."),
        ({"claims": {"aud": "another portal"}}, ELSEWHERE),
        ({"claims": {"iss": "http://elsewhere"}}, ELSEWHERE),
        ({"claims": {"aud": ["longshore", "x"], "azp": "x"}}, "What Lab account says is not for this portal."),
        ({"signer": "of a stranger"}, ELSEWHERE),
        ({"token": "no.token"}, ELSEWHERE),
        ({"token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."}, ELSEWHERE),
        (
            {"clock": -3600},
            OF_ANOTHER_TIME,
        ),
        (
            {"clock": 3600},
            OF_ANOTHER_TIME,
        ),
        ({"claims": {"sub": ""}}, "Lab account does not say who you are"),
        ({"claims": {"sub": "a\0b"}}, "Lab account does not say who you are"),
        ({"claims": {"_claim_names": {"groups": "src1"}}}, "You are in so many groups"),
        (
            {"claims": {"email": "a@b.example", "email_verified": False}},
            "Lab account has not verified your address a@b.example. Verify it there first.",
        ),
    ],
    ids=str,
)
def test_who_cannot_be_believed_is_not_signed_in(
    client: Client, lab: OidcProvider, lies: dict[str, Any], says: str
) -> None:
    lab.lies |= lies
    assert told(sign_in(client, lab)).startswith(says)
    assert not User.objects.exists()


def test_clocks_may_differ_by_less_than_a_minute(client: Client, lab: OidcProvider) -> None:
    lab.lies["clock"] = 45
    assert sign_in(client, lab).status_code == 302


def test_somebody_whom_the_provider_refuses(client: Client, lab: OidcProvider) -> None:
    for error, shown in (("access_denied", "access_denied"), ("<b>Call me</b>", "no reason given")):
        state = parse_qs(urlsplit(client.get("/sign-in/lab").headers["Location"]).query)["state"][0]
        answer = client.get("/sign-in/lab/back", {"error": error, "state": state})
        assert told(answer) == f"Lab account did not sign you in ({shown}). Begin again."


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"/.well-known/openid-configuration": (500, "{}")}, "is no OpenID configuration"),
        ({"/.well-known/openid-configuration": (200, "<html>")}, "nothing that can be read comes back"),
        ({"/.well-known/openid-configuration": (200, "[]")}, "nothing that can be read comes back"),
        ({"/.well-known/openid-configuration": (302, "http://127.0.0.1:1/")}, "is no OpenID configuration"),
        ({"/.well-known/openid-configuration": (200, '{"x": "' + "x" * 2_000_000 + '"}')}, "its answer takes too long"),
    ],
    ids=["500", "no JSON", "a list", "a redirect", "2 MB"],
)
def test_a_provider_that_is_broken_is_told_so_on_its_button_until_it_answers(
    client: Client, lab: OidcProvider, answers: dict[str, tuple[int, str]], says: str
) -> None:
    lab.lies["answers"] = answers
    assert says in told(client.get("/sign-in/lab"))
    assert says in client.get("/login").content.decode()
    lab.lies.clear()
    assert sign_in(client, lab).status_code == 302
    client.post("/logout")
    assert says not in client.get("/login").content.decode()


def test_an_answer_that_somebody_made_up_is_no_fault_of_the_provider(client: Client, lab: OidcProvider) -> None:
    state_ = parse_qs(urlsplit(client.get("/sign-in/lab").headers["Location"]).query)["state"][0]
    lab.lies["answers"] = {"/token": (400, '{"error": "invalid_request"}')}
    answer = client.get("/sign-in/lab/back", {"state": state_, "code": ""})
    assert told(answer) == "Lab account does not take this sign-in: invalid_request. Begin again."
    assert "fails since" not in client.get("/login").content.decode()


def test_one_that_does_not_answer_is_left_alone_for_a_while(
    client: Client, lab: OidcProvider, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(state, "PAUSE", 3600.0)
    lab.lies["answers"] = {"/.well-known/openid-configuration": (500, "{}")}
    says = [told(client.get("/sign-in/lab")) for _ in range(3)]
    assert len(set(says)) == 1 and len(lab.asked) == 1
    lab.lies.clear()
    state.forget(settings.SIGN_IN["lab"])
    assert client.get("/sign-in/lab").status_code == 302


def test_a_provider_that_is_another_or_refuses_the_portal(client: Client, lab: OidcProvider, settings: Any) -> None:
    lab.lies["addresses"] = {"issuer": "http://elsewhere"}
    assert "it calls itself http://elsewhere, the settings" in told(client.get("/sign-in/lab"))
    lab.lies.clear()
    settings.SIGN_IN = lab.settings(client_secret="another")
    assert "it refuses this portal (401, invalid_client)" in told(sign_in(client, lab))
    settings.SIGN_IN = lab.settings(issuer="http://127.0.0.1:1")
    assert "it cannot be reached" in told(client.get("/sign-in/lab"))


def test_one_that_hangs_holds_up_few_and_not_for_long(
    lab: OidcProvider, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "TIMEOUT", 0.2)
    monkeypatch.setattr(state, "TURN", 0.01)
    monkeypatch.setattr(state, "AT_ONCE", 1)
    lab.lies["hold"] = threading.Event()
    provider = settings.SIGN_IN["lab"]
    try:
        with pytest.raises(ProviderUnavailable, match="it is too slow"):
            oidc.measure(provider)
        with state.turn(provider), pytest.raises(ProviderUnavailable, match="others wait for it already"):
            oidc.measure(provider)
    finally:
        lab.lies["hold"].set()
    until(lambda: oidc.measure(provider) >= 0)


def test_a_name_that_exists_is_not_taken_over(client: Client, lab: OidcProvider, alice: User) -> None:
    FormerUser.objects.create(username="carol")
    alice.email = "Alice@lab.example"
    alice.save()
    link = "If that is you, sign in with your password, then link Lab account on the page of your account."
    for claims, says in (
        ({"preferred_username": "alice"}, f"There is a user alice here already. {link}"),
        ({"preferred_username": "ALICE@lab.example"}, f"There is a user ALICE here already. {link}"),
        (
            {"email": "alice@lab.example", "email_verified": True},
            f"Another user here has the address alice@lab.example. {link}",
        ),
        ({"preferred_username": "carol"}, "An account carol was deleted here, and what it left is not given away."),
        ({"preferred_username": ".."}, "Lab account calls you '..', which cannot be a user name here."),
        ({"preferred_username": ""}, "Lab account calls you '', which cannot be a user name here."),
    ):
        lab.person = {"sub": "1", "preferred_username": "mira", **claims}
        assert told(sign_in(client, lab)).startswith(says)
    assert not Identity.objects.exists()
    rows = AuditEvent.objects.filter(action="sign-in refused")
    assert rows.count() == 6 and rows.first().data["provider"] == "lab"  # type: ignore[union-attr]


def test_who_is_signed_in_links_and_then_also_gets_in_so(browse: Browse, lab: OidcProvider, alice: User) -> None:
    client = browse(alice)
    page = client.get("/account").content.decode()
    link = page.partition('href="/sign-in/lab?link=')[2].partition('"')[0]
    assert sign_in(client, lab, f"/sign-in/lab?link={link}").headers["Location"] == "/account"
    assert "From now on you also sign in by Lab account." in client.get("/account").content.decode()
    other = browse(None)
    assert sign_in(other, lab).status_code == 302
    assert other.get("/account").context["user"] == alice
    page = client.get("/account").content.decode()
    assert "sign-in/lab?link=" not in page
    assert client.post(f"/account/sign-in/{Identity.objects.get().pk}/unlink").status_code == 302
    assert not Identity.objects.exists()
    lab.person["preferred_username"] = "alice"
    assert told(sign_in(browse(None), lab)).startswith("There is a user alice here already.")


def test_nobody_is_linked_by_a_link_of_another_page(browse: Browse, lab: OidcProvider, alice: User, bob: User) -> None:
    hers, his = browse(alice), browse(bob)
    link = his.get("/account").content.decode().partition('href="/sign-in/lab?link=')[2].partition('"')[0]
    for text in (link, "x", ""):
        answer = hers.get(f"/sign-in/lab?link={text}")
        assert answer.status_code == 403 and "too old, or not of your account" in answer.context["error"]
    begun = his.get(f"/sign-in/lab?link={link}").headers["Location"]
    his.post("/logout")
    assert told(his.get(lab.sign_in(begun))).startswith("You have signed out meanwhile")
    assert not Identity.objects.exists()


def test_an_identity_is_of_one_user_alone(browse: Browse, client: Client, lab: OidcProvider, alice: User) -> None:
    sign_in(client, lab)
    hers = browse(alice)
    link = hers.get("/account").content.decode().partition('href="/sign-in/lab?link=')[2].partition('"')[0]
    answer = sign_in(hers, lab, f"/sign-in/lab?link={link}")
    assert answer.context["error"].startswith("At Lab account you are somebody who has another account here.")
    assert Identity.objects.get().user.username == "mira"


def test_who_has_no_password_keeps_their_only_way_in(client: Client, lab: OidcProvider, browse: Browse) -> None:
    sign_in(client, lab)
    mira = Identity.objects.get()
    hers = browse(mira.user)
    assert "Change password" not in hers.get("/account").content.decode()
    assert hers.post(f"/account/sign-in/{mira.pk}/unlink").status_code == 400
    assert hers.post("/account/sign-in/999/unlink").status_code == 404
    assert Identity.objects.exists()


def test_a_disabled_user_is_not_let_in_again_and_what_they_had_open_is_over(client: Client, lab: OidcProvider) -> None:
    sign_in(client, lab)
    User.objects.update(is_active=False)
    assert client.get("/account").status_code == 302
    assert told(sign_in(client, lab)) == "The account mira is disabled here. Ask the admin of this cluster."


def test_who_came_by_a_provider_is_offered_to_sign_out_there_too(
    client: Client, lab: OidcProvider, admin: User
) -> None:
    sign_in(client, lab)
    asked = len(lab.asked)
    answer = client.post("/logout")
    assert "no-store" in answer.headers["Cache-Control"] and not answer.wsgi_request.user.is_authenticated
    address, _, query = answer.context["sign_out"]["address"].partition("?")
    given = {name: values[0] for name, values in parse_qs(query).items()}
    assert (address, given["client_id"]) == (f"{lab.url}/leave", "longshore")
    assert given["post_logout_redirect_uri"] == "http://testserver/login"
    assert jwt.decode(given["id_token_hint"], options={"verify_signature": False})["sub"] == "1"
    page = answer.content.decode()
    assert f'<a href="{lab.url}/leave?' in page and "Sign out of Lab account too</a>" in page
    assert len(lab.asked) == asked and not Session.objects.exists(), "the provider may be away, and nothing stays here"
    client.post("/login", {"username": "admin", "password": PASSWORD})
    assert client.post("/logout").headers["Location"] == "/login"


@pytest.mark.parametrize("at", [None, 7, "javascript:alert(1)", "/leave", "https://elsewhere.example/"])
def test_an_address_to_sign_out_that_is_none_is_not_offered(client: Client, lab: OidcProvider, at: Any) -> None:
    lab.lies["addresses"] = {"end_session_endpoint": at}
    sign_in(client, lab)
    assert client.post("/logout").headers["Location"] == "/login"


def test_a_local_admin_gets_in_while_every_provider_is_away(client: Client, lab: OidcProvider, admin: User) -> None:
    lab.lies["answers"] = {"/.well-known/openid-configuration": (500, "")}
    client.get("/sign-in/lab")
    answer = client.post("/login", {"username": "admin", "password": PASSWORD})
    assert answer.headers["Location"] == "/"
