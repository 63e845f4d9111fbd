"""The Markdown of the guides as HTML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portal.docs.markdown import html_of, slug

DOCS = sorted(Path("docs").rglob("*.md"))
CASES = {
    "## What is *kept*": '<h2 id="what-is-kept">What is <em>kept</em></h2>',
    "one\ntwo `a*b*` **b**": "<p>one two <code>a*b*</code> <b>b</b></p>",
    "<b> & [x](y.md)": '<p>&lt;b&gt; &amp; <a href="/to/y.md">x</a></p>',
    "see docs/use/files.md.": '<p>see <a href="/to//docs/use/files.md">docs/use/files.md</a>.</p>',
    "[x](gone)": "<p>x</p>",
    "2 * 3 * 4": "<p>2 * 3 * 4</p>",
    "- a\n  b\n- c": "<ul><li>a b</li><li>c</li></ul>",
    "1. a\n2. b": "<ol><li>a</li><li>b</li></ol>",
    "- a\n\n      code": '<ul><li>a<pre class="ls-code" tabindex="0"><code>code</code></pre></li></ul>',
    "```sh\n<a>\n```": '<pre class="ls-code" tabindex="0"><code>&lt;a&gt;</code></pre>',
    "    one\n\n    two": '<pre class="ls-code" tabindex="0"><code>one\n\ntwo</code></pre>',
    "| a | b |\n|---|---|\n| 1 | `x` |": '<div class="ls-scroll" tabindex="0"><table class="table ls-table"><thead><tr>'
    '<th scope="col">a</th><th scope="col">b</th></tr></thead><tbody><tr><td>1</td><td><code>x</code></td></tr>'
    "</tbody></table></div>",
    "| | |\n|---|---|\n| 1 | 2 |": '<div class="ls-scroll" tabindex="0"><table class="table ls-table"><tbody><tr>'
    "<td>1</td><td>2</td></tr></tbody></table></div>",
}


@pytest.mark.parametrize("text", CASES)
def test_it_makes(text: str) -> None:
    assert html_of(text, lambda to: "" if to == "gone" else f"/to/{to}") == CASES[text]


@pytest.mark.parametrize("path", DOCS, ids=str)
def test_of_every_guide_nothing_is_left_as_it_was_typed(path: Path) -> None:
    made = html_of(path.read_text().partition("\n")[2], lambda to: to)
    shown = re.sub(r"<(pre|code)\b.*?</\1>", "", made, flags=re.DOTALL)
    left = re.sub(r"<[^>]*>", "", shown)
    assert not re.search(r"```|\]\(|\*\*|^##|`", left, flags=re.MULTILINE), left


def test_a_heading_has_the_anchor_that_links_name() -> None:
    assert slug("Once for all of them") == "once-for-all-of-them" and slug("`a`, b") == "a-b"
