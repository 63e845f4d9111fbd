"""What readers of a template need and browsers do not is left out; what shows stays."""

from __future__ import annotations

import pytest

from portal.shared.look.templates import squeezed


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("<div>\n  <p>One</p>\n  <p>Two</p>\n</div>\n", "<div><p>One</p><p>Two</p></div>"),
        ("<p>\n  A <b>bold</b>\n  <i>word</i>\n</p>", "<p>A <b>bold</b> <i>word</i></p>"),
        ('<a\n  class="x"\n  href="/"\n>Home</a>', '<a class="x" href="/">Home</a>'),
        ("<td>\n  {% if a %}\n    <b>x</b>\n  {% endif %}\n</td>", "<td>{% if a %}<b>x</b>{% endif %}</td>"),
        ("<td>{% if a > 1 %}\n  x{% endif %}</td>", "<td>{% if a > 1 %}x{% endif %}</td>"),
        ("<i>a</i>\n{% if b %}<i>b</i>{% endif %}", "<i>a</i> {% if b %}<i>b</i>{% endif %}"),
        ("<li {% if a %}hidden{% endif %}>", "<li{% if a %} hidden{% endif %}>"),
        ("<button>\n  Stop\n</button>\n<a>b</a>", "<button>Stop</button> <a>b</a>"),
        ('<div>\n  <pre\n    id="a"\n  >\n one\n  two </pre>\n</div>', '<div><pre id="a">\n one\n  two </pre></div>'),
        ("<textarea>\n\n {{ text }}\n</textarea>", "<textarea>\n\n {{ text }}\n</textarea>"),
    ],
)
def test_layout_goes_and_what_shows_stays(written: str, sent: str) -> None:
    assert squeezed(written) == sent
