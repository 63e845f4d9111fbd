"""Signing in by a real directory."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from base.accounts.providers import ldap, state
from base.accounts.providers.config import providers
from base.core.errors import ProviderUnavailable
from base.models import AuditEvent, Identity, SignInRule, User
from tests.bed.slapd_bed import PASSWORD, SECRET, Slapd, slapd
from tests.conftest import PASSWORD as LOCAL_PASSWORD
from tests.helpers import need

Browse = Callable[[User | None], Client]
BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "portal.sign_in.backend.DirectoryBackend",
]
WRONG = "User name or password is wrong."


@pytest.fixture(scope="module")
def server() -> Iterator[Slapd]:
    need("slapd")
    with slapd() as running:
        yield running


@pytest.fixture
def directory(server: Slapd, db: None, settings: Any) -> Slapd:
    settings.SIGN_IN = server.settings()
    settings.AUTHENTICATION_BACKENDS = BACKENDS
    SignInRule.objects.create(place=1, provider="dir")
    return server


def sign_in(client: Client, name: str = "mira", password: str = PASSWORD, source: str = "dir", **more: str) -> Any:
    return client.post("/login", {"username": name, "password": password, "source": source, **more})


def test_who_binds_gets_in_with_the_groups_that_their_groups_are_in(client: Client, directory: Slapd) -> None:
    assert sign_in(client, remember="1").status_code == 302
    user = User.objects.get()
    assert (user.username, user.email, user.is_admin) == ("mira", "mira@lab.example", False)
    assert not user.has_usable_password()
    identity = Identity.objects.get()
    assert sorted(identity.groups) == ["all", "circle", "staff", "vision"]
    assert (identity.issuer, len(identity.subject)) == ("ldap:dir", 36)
    assert client.get("/account").context["user"] == user
    assert client.session.get_expiry_age() == 12 * 3600
    assert AuditEvent.objects.get(action="login").data == {"provider": "dir"}


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("mira", "wrong"),
        ("mira", ""),
        ("nobody", PASSWORD),
        ("*", PASSWORD),
        ("m*", PASSWORD),
        ("mira)(uid=*", PASSWORD),
        ("a(b)c*d", PASSWORD),
        ("mira\0", PASSWORD),
        ("", ""),
    ],
)
def test_a_wrong_name_or_password_or_a_pattern_is_nobody(
    client: Client, directory: Slapd, name: str, password: str
) -> None:
    answer = sign_in(client, name, password)
    assert (answer.status_code, answer.context["error"]) == (400, WRONG)
    assert not User.objects.exists()


def test_what_is_a_pattern_to_a_filter_is_a_name(directory: Slapd, settings: Any) -> None:
    found = settings.SIGN_IN["dir"]
    said = ldap.check(found, "a(b)c*d", PASSWORD)
    assert said is not None and (said.username, said.groups) == ("a-b-c-d", ())
    assert ldap.check(found, "*", PASSWORD) is None and ldap.check(found, "a(b)c*", PASSWORD) is None
    assert ldap.check(found, "mira", "") is None


def test_a_client_of_the_api_gets_a_token_and_the_local_password_goes_to_no_directory(
    client: Client, directory: Slapd, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"username": "mira", "password": PASSWORD}
    token = client.post("/api/v1/token", body, "application/json").json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/api/v2/user/mira", headers=headers).json()["username"] == "mira"
    asked: list[str] = []
    monkeypatch.setattr(ldap, "check", lambda _, name, password: asked.append(name))
    for password in (LOCAL_PASSWORD, "mistyped"):
        client.post("/api/v1/token", {"username": "alice", "password": password}, "application/json")
        sign_in(client, "alice", password, "local")
    assert asked == []


def test_guessing_is_counted_as_that_of_local_passwords_is(client: Client, directory: Slapd, settings: Any) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        last = sign_in(client, password="wrong")
    assert last.status_code == 429
    assert sign_in(client).status_code == 429


def test_a_name_that_exists_is_linked_by_proof_of_both(browse: Browse, directory: Slapd) -> None:
    mira = User.objects.create_user("mira", LOCAL_PASSWORD)
    answer = sign_in(browse(None))
    assert answer.status_code == 403 and answer.context["error"].startswith("There is a user mira here already.")
    hers = browse(mira)
    for wrong in ("", "wrong"):
        answer = hers.post("/account/sign-in/dir/link", {"username": "mira", "password": wrong})
        assert (answer.status_code, answer.context["error"]) == (400, WRONG)
    assert AuditEvent.objects.filter(action="login failed").count() == 2
    answer = hers.post("/account/sign-in/dir/link", {"username": "mira", "password": PASSWORD})
    assert (answer.status_code, Identity.objects.get().user) == (302, mira)
    assert sign_in(browse(None)).status_code == 302
    assert sign_in(browse(None), password=LOCAL_PASSWORD, source="local").status_code == 302
    assert hers.post("/account/sign-in/nowhere/link").status_code == 404


def test_a_disabled_user_and_one_whom_no_rule_lets_in(client: Client, directory: Slapd) -> None:
    sign_in(client)
    User.objects.update(is_active=False)
    assert client.get("/account").status_code == 302
    assert sign_in(client).context["error"] == "The account mira is disabled here. Ask the admin of this cluster."
    SignInRule.objects.update(group="vision")
    assert "no rule lets you in here" in sign_in(client, "paul").context["error"]


def test_who_has_no_password_here_gives_themselves_none(client: Client, directory: Slapd) -> None:
    sign_in(client)
    token = client.post("/api/v1/token", {"username": "mira", "password": PASSWORD}, "application/json").json()["token"]
    body = {"username": "mira", "password": "one of my own", "admin": False, "modify": True}
    answer = client.put("/api/v1/user", body, "application/json", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 403 and "You have no password here" in answer.json()["message"]
    assert not User.objects.get().has_usable_password()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"bind_password": "wrong"}, "it refuses the account of this portal (bind_dn)"),
        ({"bind_dn": ""}, "it refuses"),
        ({"base": "ou=nobody,dc=lab"}, "it has no such base as the settings name"),
        ({"ca": ""}, "its certificate is not believed"),
        ({"url": "ldap://localhost:{port}"}, "its certificate is not believed"),
        ({"url": "ldaps://127.0.0.1:{tls_port}", "ca": ""}, "its certificate is not believed"),
        ({"url": "ldap://127.0.0.1:1"}, "it does not answer"),
    ],
    ids=str,
)
def test_a_directory_that_cannot_be_asked_signs_nobody_in_and_says_why(
    server: Slapd, wrong: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "PAUSE", 0.0)
    filled = {key: value.format(port=server.port, tls_port=server.tls_port) for key, value in wrong.items()}
    found = server.settings(**filled)["dir"]
    for ask in (ldap.measure, lambda each: ldap.check(each, "mira", PASSWORD)):
        with pytest.raises(ProviderUnavailable) as raised:
            ask(found)
        told = raised.value.message
        assert says in told and SECRET not in told and PASSWORD not in told


def test_tls_from_the_first_byte_and_what_is_measured(server: Slapd) -> None:
    found = server.settings(url=f"ldaps://127.0.0.1:{server.tls_port}")["dir"]
    assert ldap.measure(found) >= 0
    assert ldap.check(found, "paul", PASSWORD).groups == ("nlp",)  # type: ignore[union-attr]


def test_one_that_hangs_is_left_in_time(server: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap, "TIMEOUT", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        found = server.settings(url=f"ldap://127.0.0.1:{silent.getsockname()[1]}")["dir"]
        with pytest.raises(ProviderUnavailable, match="it does"):
            ldap.check(found, "mira", PASSWORD)


_TABLE = '[dir]\ntitle = "Directory"\nbase = "dc=lab"\n'


def test_a_directory_without_its_package_stops_the_start_and_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "base.accounts.providers.config.find_spec", lambda name: None if name == "ldap3" else find(name)
    )
    command = r"run \.venv/bin/python -m pip install --require-hashes -r requirements/ldap\.txt"
    with pytest.raises(ImproperlyConfigured, match=rf"LONGSHORE_SIGN_IN, \[dir\]: LDAP needs a package .*; {command}"):
        providers(f'{_TABLE}url = "ldaps://ldap.lab"\n')
    assert "ldap3" not in (Path(__file__).parents[2] / "requirements/run.txt").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'{_TABLE}url = "http://x"', "url is http://x; it must be such as ldaps://ldap.example.org"),
        (f'{_TABLE}url = "ldap://x"\nstart_tls = false', "without start_tls passwords would pass in plain text"),
        (f'{_TABLE}url = "ldaps://x"\nfilter = "(uid=me)"', "filter must have {username} in it"),
        (f'{_TABLE}url = "ldaps://x"\nca = "/nowhere"', "there is no file /nowhere"),
        (f'{_TABLE}url = "ldaps://x"\nbind_password_file = "/nowhere"', "bind_password_file is /nowhere, which cannot"),
        (
            '[lab]\ntitle = "Lab"\nissuer = "http://x"\nclient_id = "y"',
            "it must be an address that begins with https://",
        ),
        ('[lab]\ntitle = "Lab"\nissuer = "https://x"', "[lab], client_id: Field required"),
        (
            '[lab]\ntitle = "Lab"\nissuer = "https://x"\nclient_id = "y"\nclientsecret = "z"',
            "[lab], clientsecret: Extra",
        ),
        ('[Lab account]\ntitle = "x"', "is no TOML"),
        ('["Lab account"]\ntitle = "x"', "must have a table such as [lab]"),
        ("lab = 1", "must have a table such as [lab]"),
        (
            "".join(f'[a{n}]\ntitle="x"\nissuer="https://x"\nclient_id="y"\n' for n in range(2)),
            "names one issuer twice",
        ),
        ("".join(f"[a{n}]\n" for n in range(21)), "names 21 providers; 20 are the most"),
    ],
)
def test_what_is_wrong_with_the_settings_is_told_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        providers(text)
    told = str(raised.value)
    assert says in told and "\n" not in told and "clientsecret = " not in told and told.startswith("LONGSHORE_SIGN_IN")
