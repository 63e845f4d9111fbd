"""A whole portal behind a real nginx, set up as docs/run/https.md says; and one that speaks HTTPS itself."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.acceptance.portal import Portal, free_port
from tests.bed import nginx_bed
from tests.helpers import LIMIT, need


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Portal, str, Path]]:
    """The portal, its address as users know it, and the certificate they trust."""
    need("nginx")
    folder, port = tmp_path_factory.mktemp("https"), free_port()
    home = folder / "home"
    home.mkdir()
    url = f"https://localhost:{port}"
    settings = {"LONGSHORE_PUBLIC_URL": url, "LONGSHORE_TRUSTED_PROXIES": "127.0.0.1"}
    portal = Portal(home, f"unix://{folder}/no-docker.sock", **settings)
    try:
        portal.start()
        with nginx_bed.nginx(folder, port, portal.settings["LONGSHORE_BIND"]) as certificate:
            yield portal, url, certificate
    finally:
        portal.close()


@contextmanager
def browser(url: str, certificate: Path, address: str = "127.0.0.2") -> Iterator[httpx.Client]:
    """A client that trusts this certificate, comes from that address and sends what browsers send with a form."""
    trust = ssl.create_default_context(cafile=str(certificate))
    way = httpx.HTTPTransport(verify=trust, local_address=address)
    with httpx.Client(
        base_url=url, transport=way, timeout=LIMIT, headers={"Origin": url, "Referer": f"{url}/login"}
    ) as it:
        yield it


def sign_in(client: httpx.Client, username: str, password: str) -> httpx.Response:
    form = client.get("/login").text
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
    assert token
    data = {"username": username, "password": password, "csrfmiddlewaretoken": token[1]}
    return client.post("/login", data=data)


def password_of(portal: Portal) -> str:
    return (portal.home / "secrets" / "admin-password").read_text().strip()


def test_forms_work_and_cookies_stay_on_https(https: tuple[Portal, str, Path]) -> None:
    portal, url, certificate = https
    with browser(url, certificate) as client:
        answer = sign_in(client, "admin", password_of(portal))
        assert answer.status_code == 302, answer.text
        cookies = answer.headers.get_list("set-cookie")
        assert {cookie.partition("=")[0] for cookie in cookies} == {"__Host-longshore", "__Host-csrftoken"}
        assert all("; Secure" in cookie for cookie in cookies)
        assert "admin" in client.get("/account").text
        assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_a_form_of_another_site_is_still_refused(https: tuple[Portal, str, Path]) -> None:
    portal, url, certificate = https
    with browser(url, certificate) as client:
        client.headers["Origin"] = "https://elsewhere.example"
        assert sign_in(client, "admin", password_of(portal)).status_code == 403


def test_wrong_passwords_of_one_client_lock_nobody_else_out(https: tuple[Portal, str, Path]) -> None:
    portal, url, certificate = https
    with browser(url, certificate, "127.0.0.3") as guesser, browser(url, certificate, "127.0.0.4") as admin:
        codes = [sign_in(guesser, "admin", f"a wrong one {number}").status_code for number in range(9)]
        assert codes[-1] == 429
        assert sign_in(admin, "admin", password_of(portal)).status_code == 302
    seen = "SELECT DISTINCT ip FROM portal_auditevent WHERE action = 'login failed'"
    assert portal.rows(seen) == [("127.0.0.3",)]


def test_nobody_else_is_believed(https: tuple[Portal, str, Path]) -> None:
    """Straight to the portal's port, from an address that is no proxy."""
    portal, _, _ = https
    way = httpx.HTTPTransport(local_address="127.0.0.9")
    told = {"X-Forwarded-For": "127.0.0.77", "X-Forwarded-Proto": "https"}
    with httpx.Client(base_url=portal.url, transport=way, headers=told, timeout=LIMIT) as client:
        client.post("/api/v1/token", json={"username": "somebody", "password": "a wrong one"})
        assert "strict-transport-security" not in client.get("/login").headers
    seen = "SELECT ip FROM portal_auditevent WHERE action = 'login failed' AND actor = 'somebody'"
    assert portal.rows(seen) == [("127.0.0.9",)]


def test_large_files_pass_both_ways_and_redirects_stay_on_https(https: tuple[Portal, str, Path]) -> None:
    portal, url, certificate = https
    content = bytes(range(256)) * 20_000  # more than a proxy takes by itself
    bearer = {"Authorization": portal.http.headers["Authorization"]}
    with browser(url, certificate) as client:
        path = "/webhdfs/v1/tmp/large"
        first = client.put(path, params={"op": "CREATE", "overwrite": "true"}, headers=bearer)
        assert first.status_code == 307
        assert first.headers["location"].startswith(f"{url}/webhdfs/v1/tmp/large?")
        assert client.put(first.headers["location"], content=content, headers=bearer).status_code == 201
        read = client.get(path, params={"op": "OPEN"}, headers=bearer, follow_redirects=True)
        assert read.content == content


def test_a_live_page_is_not_held_back(https: tuple[Portal, str, Path]) -> None:
    portal, url, certificate = https
    with browser(url, certificate) as client:
        sign_in(client, "admin", password_of(portal))
        with client.stream("GET", "/stream/page", params={"page": "jobs"}) as answer:
            assert next(answer.iter_text()).startswith("retry: 3000")  # and the stream goes on


def test_a_certificate_of_its_own_serves_https(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    certificate, key = nginx_bed.certificate(tmp_path)
    files = {"LONGSHORE_TLS_CERT": str(certificate), "LONGSHORE_TLS_KEY": str(key)}
    portal = Portal(home, f"unix://{tmp_path}/no-docker.sock", **files)
    portal.http = httpx.Client(
        base_url=f"https://{portal.settings['LONGSHORE_BIND']}/api/v1",
        verify=ssl.create_default_context(cafile=str(certificate)),
        timeout=LIMIT,
    )
    try:
        portal.start()
        assert f"is ready: https://{portal.settings['LONGSHORE_BIND']}" in portal.text()
        assert portal.get("/jobs") == []
    finally:
        portal.close()
