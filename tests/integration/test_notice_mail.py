"""Notices by mail, to a real server of mail: text and HTML, one thread a job, and what its refusals mean."""

from __future__ import annotations

import email
import socket
import ssl
import subprocess
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from base.core.errors import BadRequest
from base.models import User
from jobs.models import NoticeDelivery
from jobs.notices import services
from jobs.notices.channels import mail
from jobs.notices.services import ChannelOwner
from tests.cluster import Cluster
from tests.helpers import LIMIT
from tests.integration.test_notices import failed_job, of_ledger
from tests.notices import channel, deliveries, make_due, send_all, told

pytestmark = pytest.mark.django_db
TO = "alice@example.org"


class Handler:
    def __init__(self) -> None:
        self.got: list[EmailMessage] = []
        self.answer = "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        message = email.message_from_bytes(content, policy=default)
        assert isinstance(message, EmailMessage)
        self.got.append(message)
        return "250 taken"


class MailServer(Controller):
    """It has its port before it starts, so that nobody else can take it, and may take its time."""

    def __init__(self, handler: Handler, **more: Any) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        super().__init__(handler, hostname="127.0.0.1", port=port, ready_timeout=LIMIT, **more)

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self._listening)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "PATIENCE", LIMIT)


@pytest.fixture
def box(settings: Any) -> Iterator[Handler]:
    handler = Handler()
    controller = MailServer(handler)
    controller.start()
    settings.MAIL_SERVER, settings.MAIL_TLS = ("127.0.0.1", controller.port), "none"
    settings.MAIL_FROM = "Longshore <longshore@lab.example.org>"
    yield handler
    controller.stop()


def parts(message: EmailMessage) -> tuple[str, str]:
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None and html is not None
    return plain.get_content(), html.get_content()


def test_what_is_told_of_a_job_is_one_thread_in_text_and_html(box: Handler, cluster: Cluster) -> None:
    of_ledger()
    channel(cluster.owner, TO, kind="mail")
    failed_job(cluster)
    send_all()
    started, failed = box.got
    assert (failed["Subject"], failed["To"]) == ("alice/train has failed", TO)
    assert started["References"] == failed["References"] == failed["In-Reply-To"] != None  # noqa: E711
    uids = [each.uid for each in deliveries()]
    assert [f"<{uid}@lab.example.org>" for uid in uids] == [started["Message-ID"], failed["Message-ID"]]
    text, html = parts(failed)
    for said in ("Out of memory in worker-1", "/jobs/alice/train", "Exit code"):
        assert said in text and said in html, said
    assert [each.state for each in deliveries()] == ["taken"] * 2


def test_names_are_no_markup_and_no_headers(box: Handler, alice: User) -> None:
    channel(alice, TO, kind="mail")
    told(alice, kind="quota", data={"title": "<b>x</b>"})
    told(alice, kind="quota", data={"title": "one\r\nBcc: evil@example.org"})
    send_all()
    assert "&lt;b&gt;x&lt;/b&gt;" in parts(box.got[0])[1]
    assert len(box.got) == 1 and deliveries()[1].tries == 1, "a title of two lines is sent to nobody"


@pytest.mark.parametrize(
    ("answer", "state"),
    [("550 no such user", "given up"), ("451 come back later", "waiting"), ("535 who are you", "waiting")],
)
def test_a_refusal_says_whether_it_is_for_good(box: Handler, alice: User, answer: str, state: str) -> None:
    box.answer = answer
    channel(alice, TO, kind="mail")
    told(alice)
    send_all()
    [delivery] = deliveries()
    assert (delivery.state, delivery.answer, delivery.status) == (state, answer, int(answer[:3]))
    box.answer = "250 OK"
    make_due()
    assert send_all() == (state == "waiting") == len(box.got)


def test_a_server_that_is_away_is_tried_again(alice: User, settings: Any) -> None:
    settings.MAIL_SERVER, settings.MAIL_TLS = ("127.0.0.1", 1), "none"
    channel(alice, TO, kind="mail")
    told(alice)
    send_all()
    [delivery] = deliveries()
    assert delivery.state == "waiting" and "cannot be reached" in delivery.answer


def test_several_at_once_come_as_one(box: Handler, alice: User) -> None:
    channel(alice, TO, kind="mail")
    told(alice, 5)
    assert send_all() == 1
    [message] = box.got
    assert message["Subject"] == "5 notices of Longshore" and parts(message)[0].count("It is so.") == 5
    assert sorted(NoticeDelivery.objects.values_list("state", flat=True)) == ["taken", *["together"] * 5]


def test_no_mail_is_promised_where_none_can_be_sent(alice: User, settings: Any, box: Handler) -> None:
    for bad in ("alice", "a@b, c@d", "Alice <alice@example.org>", "alice@example.org\nBcc: x@y"):
        with pytest.raises(BadRequest, match="one address"):
            services.add_channel(ChannelOwner(alice), "mail", "mail", bad)
    settings.MAIL_SERVER = None
    with pytest.raises(BadRequest, match="sends no mail"):
        services.add_channel(ChannelOwner(alice), "mail", "mail", TO)


def test_it_signs_in_over_tls_alone(
    alice: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real STARTTLS with a certificate that is checked, and a password that the server wants."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    named = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*made, *named], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    asked: list[object] = []

    def check(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object) -> AuthResult:
        asked.append(data)
        is_right = isinstance(data, LoginPassword) and data.password == b"open sesame"
        return AuthResult(success=is_right, handled=False)

    handler = Handler()
    controller = MailServer(handler, tls_context=context, authenticator=check, auth_required=True)
    controller.start()
    try:
        settings.MAIL_SERVER = ("localhost", controller.port)
        settings.MAIL_USER, settings.MAIL_PASSWORD, settings.MAIL_TLS = "longshore", "wrong", "starttls"
        channel(alice, TO, kind="mail")
        told(alice)
        send_all()
        assert "certificate is not valid" in deliveries()[0].answer and not asked
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        for password, state in (("wrong", "waiting"), ("open sesame", "taken")):
            settings.MAIL_PASSWORD = password
            make_due()
            send_all()
            assert deliveries()[0].state == state, deliveries()[0].answer
        assert len(handler.got) == 1 and "open sesame" not in str(list(NoticeDelivery.objects.values()))
    finally:
        controller.stop()


def test_its_way_says_nothing_of_our_password(settings: Any) -> None:
    settings.MAIL_SERVER, settings.MAIL_PASSWORD = ("127.0.0.1", 1), "open sesame"
    assert "open sesame" not in mail._why(OSError("open sesame"))
