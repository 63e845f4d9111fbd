"""Mail, by the server that an admin has set (LONGSHORE_MAIL_SERVER): text and HTML, one thread a job."""

from __future__ import annotations

import hashlib
import smtplib
import ssl
import time
from collections.abc import Iterator
from email.utils import parseaddr

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.smtp import EmailBackend
from django.core.validators import validate_email
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from base.core.errors import BadRequest
from jobs.notices.message import NoticeMessage
from jobs.notices.post import PATIENCE, SendAnswer, SendError

_STYLE = "font-family:sans-serif;font-size:14px;line-height:20px"


def check_address(address: str) -> str:
    """Raises BadRequest, also where no mail can be sent at all."""
    if not settings.MAIL_SERVER:
        raise BadRequest("This portal sends no mail: its admins have not set LONGSHORE_MAIL_SERVER.")
    try:
        validate_email(address.strip())
    except ValidationError:
        raise BadRequest("Give one address of mail, such as lena@example.org.") from None
    return address.strip()


def text(message: NoticeMessage) -> str:
    return "\n\n".join(_paragraphs(message))


def _paragraphs(message: NoticeMessage) -> Iterator[str]:
    yield "\n".join([f"{message.title}.", *message.lines])
    if message.facts:
        yield "\n".join(f"{name}: {value}" for name, value in message.facts)
    yield message.url
    for part in message.parts:
        yield from _paragraphs(part)


def html(message: NoticeMessage) -> str:
    return format_html('<div style="{}">{}</div>', _STYLE, mark_safe("".join(_html(message))))  # noqa: S308 - escaped


def _html(message: NoticeMessage) -> Iterator[SafeString]:
    yield format_html('<p><b><a href="{}">{}</a></b></p>', message.url, message.title)
    yield format_html_join("", "<p>{}</p>", ((line,) for line in message.lines))
    if message.facts:
        rows = format_html_join("", "<tr><td>{}&emsp;</td><td>{}</td></tr>", message.facts)
        yield format_html('<table style="{}">{}</table>', _STYLE, rows)
    for part in message.parts:
        yield from _html(part)


def send(target: str, uid: str, message: NoticeMessage) -> SendAnswer:
    """Raises SendError."""
    began, host = time.monotonic(), parseaddr(settings.MAIL_FROM)[1].rpartition("@")[2] or "localhost"
    headers = {"Message-ID": f"<{uid}@{host}>", "Auto-Submitted": "auto-generated"}
    if message.thread:  # all mails about a job refer to one that was never sent: so they are one thread
        thread = hashlib.sha256(message.thread.encode()).hexdigest()[:32]
        headers |= {"In-Reply-To": f"<{thread}@{host}>", "References": f"<{thread}@{host}>"}
    try:
        mail = EmailMultiAlternatives(message.title, text(message), settings.MAIL_FROM, [target], headers=headers)
        mail.attach_alternative(html(message), "text/html")
        server = _Server()
        try:
            server.send_messages([mail])
        finally:
            if server.connection is not None:  # of a sign-in that was refused, or a certificate that is not valid
                server.connection.close()
    except smtplib.SMTPRecipientsRefused as error:
        code, said = next(iter(error.recipients.values()))
        raise _refused(code, said, began) from None
    except smtplib.SMTPResponseException as error:
        raise _refused(error.smtp_code, error.smtp_error, began) from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise SendError(SendAnswer(_why(error), took=time.monotonic() - began)) from None
    return SendAnswer("taken by the server of mail", 250, took=time.monotonic() - began)


class _Server(EmailBackend):
    def __init__(self) -> None:
        host, port = settings.MAIL_SERVER or ("", 0)
        super().__init__(
            host=host,
            port=port,
            username=settings.MAIL_USER,
            password=settings.MAIL_PASSWORD,
            use_tls=settings.MAIL_TLS == "starttls",
            use_ssl=settings.MAIL_TLS == "tls",
            timeout=int(PATIENCE),
        )


def _refused(code: int, said: bytes | str, began: float) -> SendError:
    """5xx: the same will not be taken later. But 530 to 538 are about us, and not about this mail."""
    words = said.decode(errors="replace") if isinstance(said, bytes) else said
    is_ours = 530 <= code <= 538
    answer = SendAnswer(f"{code} {' '.join(words.split())}"[:300], code, took=time.monotonic() - began)
    return SendError(answer, permanent=code >= 500 and not is_ours)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the server of mail does not answer in {PATIENCE:.0f} s"
    if isinstance(error, ssl.SSLError):
        return "the server of mail does not speak TLS as we do, or its certificate is not valid"
    if isinstance(error, OSError) and error.strerror:
        return f"the server of mail cannot be reached: {error.strerror}"
    return "the server of mail broke off"
