"""Turns the Markdown of our guides into HTML: headings, paragraphs, lists, tables, code, links. Pure.

It knows what docs/ uses and no more; all text is escaped before anything is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape

_ITEM = re.compile(r"(?:-|[0-9]+\.) +")
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\[(?P<says>[^\]]+)\]\((?P<to>[^)\s]+)\)|\*\*(?P<bold>.+?)\*\*"
    r"|(?<![\w*])\*(?P<em>[^\s*][^*]*)\*(?![\w*])|(?P<page>docs/[\w./-]+\.md)"
)
Link = Callable[[str], str]  # the address of what a guide links to; empty for what is no page


def html_of(text: str, link: Link) -> str:
    return "\n".join(_blocks(text.split("\n"), link))


def slug(heading: str) -> str:
    """The anchor of a heading, as hosts of repositories name it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _blocks(lines: Sequence[str], link: Link) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line, begin = lines[at], at
        if line.startswith("```"):
            at = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("```")), len(lines))
            yield _code(lines[begin + 1 : at])
            at += 1
        elif line.startswith("    "):
            at = _while(lines, at, lambda each: each.startswith("    ") or not each.strip())
            yield _code([each[4:] for each in lines[begin:at]])
        elif heading := re.match(r"(#{2,4}) +(.*)", line):
            level = len(heading[1])
            yield f'<h{level} id="{escape(slug(heading[2]))}">{_inline(heading[2], link)}</h{level}>'
            at += 1
        elif line.startswith("|"):
            at = _while(lines, at, lambda each: each.startswith("|"))
            yield _table([_cells(each) for each in lines[begin:at]], link)
        elif _ITEM.match(line):
            at = _while(lines, at, lambda each: bool(_ITEM.match(each)) or each.startswith("  ") or not each.strip())
            yield _list(lines[begin:at], link)
        elif line.strip():
            at = _while(lines, at + 1, lambda each: bool(each.strip()) and not each.startswith(("```", "|", "#", "- ")))
            yield f"<p>{_inline(' '.join(lines[begin:at]), link)}</p>"
        else:
            at += 1


def _while(lines: Sequence[str], at: int, holds: Callable[[str], bool]) -> int:
    """The first line from ``at`` on for which it does not hold."""
    return next((n for n in range(at, len(lines)) if not holds(lines[n])), len(lines))


def _code(lines: Sequence[str]) -> str:
    text = escape("\n".join(lines).strip("\n"))
    return f'<pre class="ls-code" tabindex="0"><code>{text}</code></pre>'


def _list(lines: Sequence[str], link: Link) -> str:
    items: list[list[str]] = []
    for line in lines:
        if begin := _ITEM.match(line):
            items.append([line[begin.end() :]])
        else:
            items[-1].append(line[2:] if line.startswith("  ") else line)
    kind = "ul" if lines[0].startswith("-") else "ol"
    return f"<{kind}>{''.join(f'<li>{_item(item, link)}</li>' for item in items)}</{kind}>"


def _item(lines: Sequence[str], link: Link) -> str:
    """An item of one paragraph is its text alone."""
    blocks = list(_blocks(lines, link))
    return blocks[0].removeprefix("<p>").removesuffix("</p>") + "".join(blocks[1:]) if blocks else ""


def _cells(line: str) -> list[str]:
    return [each.strip().replace("\\|", "|") for each in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def _table(rows: Sequence[Sequence[str]], link: Link) -> str:
    head, body = rows[0], rows[2:]
    named = any(head)
    shown = "".join(f'<th scope="col">{_inline(cell, link)}</th>' for cell in head)
    lines = "".join(f"<tr>{''.join(f'<td>{_inline(cell, link)}</td>' for cell in row)}</tr>" for row in body)
    table = f'<table class="table ls-table">{f"<thead><tr>{shown}</tr></thead>" if named else ""}<tbody>{lines}</tbody>'
    return f'<div class="ls-scroll" tabindex="0">{table}</table></div>'


def _inline(text: str, link: Link) -> str:
    pieces, at = [], 0
    for match in _INLINE.finditer(text):
        pieces += [escape(text[at : match.start()]), _piece(match, link)]
        at = match.end()
    return "".join([*pieces, escape(text[at:])])


def _piece(match: re.Match[str], link: Link) -> str:
    if code := match["code"]:
        return f"<code>{escape(code)}</code>"
    if bold := match["bold"]:
        return f"<b>{_inline(bold, link)}</b>"
    if em := match["em"]:
        return f"<em>{_inline(em, link)}</em>"
    says, to = (match["says"], match["to"]) if match["to"] else (match["page"], f"/{match['page']}")
    address = link(to)
    return (
        f'<a href="{escape(address)}">{_inline(says, link) if match["to"] else says}</a>' if address else escape(says)
    )
