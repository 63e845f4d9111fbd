"""Template tags for small parts of pages that are drawn often (every template has them: settings, builtins).

Larger components are files in templates/components. A template never chooses a colour: it names a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from base.core import words

register = template.Library()
register.filter("duration", words.duration)
register.filter("memory", words.memory)
register.filter("number", words.number)
register.filter("ranges", words.ranges)
register.filter("listing", words.listing)
register.filter("ordinal", words.ordinal)


@register.filter
def count(n: int, nouns: str) -> str:
    """``{{ 3|count:"task" }}`` is ``3 tasks``; a second noun after a comma is the plural."""
    singular, _, plural = nouns.partition(",")
    return words.count(n, singular, plural)


register.filter("visible", words.visible)


@register.filter
def item(values: Mapping[Any, Any], name: Any) -> Any:
    return values.get(name, "")


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    return _icon(name, css)


@register.simple_tag
def state(name: str, *, pill: bool = False, text: str = "") -> SafeString:
    """A state as icon, word and colour (the table is base.core.words.STATES)."""
    return _state(name, pill, text)


@register.simple_tag
def state_css(name: str) -> str:
    return words.STATES[name].css


@register.simple_tag
def state_word(name: str) -> str:
    return words.STATES[name].word


@register.simple_tag
def state_icon(name: str) -> SafeString:
    return icon(words.STATES[name].icon)


@register.simple_tag
def bar(parts: Iterable[tuple[str, float]], label: str, css: str = "") -> SafeString:
    """A bar of use or of states. ``parts`` are (class or state, percent); ``label`` is the sentence read aloud."""
    x, drawn = 0.0, []
    for name, width in parts:
        known = words.STATES.get(name)
        drawn.append((known.css if known else name, round(x, 1), round(width, 1)))
        x += width
    rects = format_html_join("", '<rect class="{}" x="{}" width="{}" height="8"/>', drawn)
    return format_html(
        '<svg class="ls-bar {}" role="img" aria-label="{}" viewBox="0 0 100 8" preserveAspectRatio="none">{}</svg>',
        css,
        label,
        rects,
    )


@register.simple_tag
def bar_of(percent: float, what: str) -> SafeString:
    return bar_label(percent, f"{what}: {percent:g} % taken")


@register.simple_tag
def bar_label(percent: float, label: str, css: str = "") -> SafeString:
    """A bar with one part, in the colour of a state's class."""
    return bar([(css, percent)], label)


@register.simple_tag
def copy_button(text: str, what: str) -> SafeString:
    """A small button; ``what`` is named aloud."""
    button = '<button type="button" class="btn btn-ghost tiny ls-js" data-copy="{}" aria-label="Copy {}">{}</button>'
    return format_html(button, text, what, icon("copy"))


@register.simple_tag
def log_links(url: str, task: str, attempt: int) -> SafeString:
    links = ((url, task, attempt, stream, stream, task, stream) for stream in ("stdout", "stderr"))
    return format_html_join(
        " · ", '<a href="{}/logs?task={}&amp;attempt={}&amp;stream={}" aria-label="{} of {}">{}</a>', links
    )


@register.simple_tag
def taskbar(counts: Mapping[str, int], text: str = "") -> SafeString:
    """A bar of task states with its words: ``11 of 16 done``."""
    return _taskbar(tuple(counts.items()), text)


@lru_cache(maxsize=256)
def _taskbar(of_states: tuple[tuple[str, int], ...], text: str) -> SafeString:
    counts = dict(of_states)
    total = sum(counts.values()) or 1
    said = text or task_words(counts)
    order = ("SUCCEEDED", "FAILED", "RUNNING", "STARTING", "STOPPING", "STOPPED", "WAITING")
    drawn = bar([(name, 100 * counts[name] / total) for name in order if counts.get(name)], said)
    return format_html('<span class="ls-taskbar">{}<span>{}</span></span>', drawn, said)


@register.filter("state_words")
def task_words(counts: Mapping[str, int]) -> str:
    """``5 running``; ``1 failed, 1 stopped``; ``11 of 16 done`` while some are done and some are not."""
    total, done = sum(counts.values()), counts.get("SUCCEEDED", 0)
    ended = done + counts.get("FAILED", 0) + counts.get("STOPPED", 0)
    if not counts.get("FAILED") and 0 < done < total and ended < total:
        return f"{done:,} of {total:,} done"
    order = ("FAILED", "STOPPING", "STARTING", "RUNNING", "WAITING", "STOPPED", "SUCCEEDED")
    said = [f"{counts[name]:,} {words.STATES[name].word.lower()}" for name in order if counts.get(name)]
    return ", ".join(said[:3]) or "no tasks"


@register.simple_tag
def clock(moment: datetime | None) -> SafeString | str:
    """Return ``14:22:31`` today, ``19 Nov 14:22:31`` on another day."""
    if moment is None:
        return words.NOTHING
    local = timezone.localtime(moment)
    today = timezone.localdate()
    shown = f"{local:%H:%M:%S}" if local.date() == today else f"{local.day} {local:%b %H:%M:%S}"
    return _time(local, shown)


@register.simple_tag
def ago(moment: datetime | None) -> SafeString | str:
    """``3 min ago`` up to 7 days, then a date. The browser keeps it up to date."""
    if moment is None:
        return words.NOTHING
    seconds = (timezone.now() - moment).total_seconds()
    if seconds > 7 * 86400:
        return _date(moment)
    return _time(timezone.localtime(moment), words.ago(seconds), mark="data-ago")


@register.simple_tag
def until(moment: datetime) -> SafeString:
    """``in 30 d``, ``in 5 h``: one unit, the nearest, for up to 100 days, then a date."""
    seconds = (moment - timezone.now()).total_seconds()
    if seconds > 100 * 86400:
        return _date(moment)
    half = next((size / 2 for size in (86400, 3600, 60) if seconds >= size), 0)
    shown = f"in {words.ago(max(5, seconds + half)).removesuffix(' ago')}" if seconds >= 1 else "now"
    return _time(timezone.localtime(moment), shown, mark="data-until")


@register.simple_tag
def day(moment: datetime) -> SafeString:
    """``13:50`` today, ``Thu 15:10`` within a week, else ``12 Oct``: for narrow columns."""
    local, today = timezone.localtime(moment), timezone.localdate()
    days = (today - local.date()).days
    shown = f"{local:%H:%M}" if not days else f"{local:%a %H:%M}" if 0 < days < 7 else f"{local.day} {local:%b}"
    return _time(local, shown)


@register.simple_tag
def boost(show: str = "none") -> SafeString:
    """A link or form inside replaces the main part of the page instead of loading all of it; ``show`` scrolls."""
    values = ("true", "#main", "#main", f"outerHTML show:{show}")
    return format_html('hx-boost="{}" hx-target="{}" hx-select="{}" hx-swap="{}"', *values)


@register.simple_tag
def since(moment: datetime | None) -> SafeString | str:
    """How long it has been, ticking in the browser."""
    if moment is None:
        return words.NOTHING
    seconds = (timezone.now() - moment).total_seconds()
    return _time(timezone.localtime(moment), words.duration(seconds), mark="data-since", before="Since ")


@register.simple_tag
def lasted(start: datetime | None, end: datetime | None) -> SafeString | str:
    """The time between two moments; ticking while the second is not there yet."""
    if start is None:
        return words.NOTHING
    if end is None:
        return since(start)
    title = f"{absolute(start)} to {timezone.localtime(end):%H:%M:%S}"
    return SafeString(f'<span title="{title}">{words.duration((end - start).total_seconds())}</span>')


@register.simple_tag
def reason(row: Any) -> SafeString:
    """What happens to a job (portal.shared.jobs.rows.JobRow), or why it waits."""
    said = format_html('<span class="ls-warn">{}</span>' if row.is_warned else "{}", row.happening)
    return format_html("{} {}", said, format_html("Next try {}.", until(row.next_try)) if row.next_try else "")


@register.simple_tag
def happening(row: Any) -> SafeString:
    """The same behind its place in the queue."""
    place = format_html('<b class="fw-medium">{}.</b>', row.place) if row.place else ""
    return format_html("{} {}", place, reason(row))


@register.simple_tag
def coloured(pieces: Iterable[tuple[str, str]]) -> SafeString:
    """A line of a job config: ``pieces`` are (class, text). It has no spaces of its own, so it is copied as it is."""
    return format_html_join("", "{}", ((_piece(text, css),) for css, text in pieces))


@register.simple_tag
def log_text(line: Any) -> SafeString:
    """The text of a jobs.logs line in its colours, and a note on the line. It has no spaces of its own."""
    drawn = format_html_join("", "{}", ((_piece(*piece),) for piece in line.pieces)) if line.pieces else line.text
    return format_html("{}<i>{}</i>", drawn, line.note) if line.note else format_html("{}", drawn)


def _piece(text: str, css: str, colour: str = "", background: str = "") -> SafeString | str:
    if not css:
        return text
    marks = [(name, value) for name, value in (("colour", colour), ("background", background)) if value]
    return format_html('<span class="{}"{}>{}</span>', css, format_html_join("", ' data-{}="{}"', marks), text)


@register.simple_tag
def squares(items: Iterable[str], label: str) -> SafeString:
    """GPU squares: free, mine, busy, held, out, want; of a virtual cluster on the wall also v1 to v6."""
    return format_html('<span class="ls-gpus" role="img" aria-label="{}">{}</span>', label, _squares(tuple(items)))


@register.simple_tag(takes_context=True)
def query(context: Mapping[str, Any], **changes: object) -> str:
    """This page's query string with some values changed; an empty value is dropped."""
    params = context["request"].GET.copy()
    for name, value in changes.items():
        params.pop(name, None)
        if value not in (None, ""):
            params[name] = str(value)
    return f"?{params.urlencode()}"


def absolute(moment: datetime) -> str:
    """Return ``Fri 20 Nov 2026, 11:02:10 (UTC+8)``."""
    return _absolute(timezone.localtime(moment))


def _absolute(local: datetime) -> str:
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S} ({words.zone(local)})"


def _date(moment: datetime) -> SafeString:
    local = timezone.localtime(moment)
    return _time(local, f"{local.day} {local:%b %Y}")


def _time(local: datetime, shown: str, *, mark: str = "", before: str = "") -> SafeString:
    """Nothing of it has a sign that HTML would read: a list draws it some hundred times, and to look at each part takes
    longer than to write it."""
    data = f' {mark}="{int(local.timestamp() * 1000)}"' if mark else ""
    iso, title = local.isoformat(timespec="seconds"), f"{before}{_absolute(local)}"
    return SafeString(f'<time{data} datetime="{iso}" title="{title}">{shown}</time>')


@lru_cache(maxsize=1024)
def _squares(items: tuple[str, ...]) -> SafeString:
    return format_html_join("", '<i class="{}"></i>', ((item,) for item in items))


@lru_cache(maxsize=256)
def _icon(name: str, css: str) -> SafeString:
    """The sprite's name has its digest, which stays as long as the process has its code."""
    sprite, classes = static("vendor/icons.svg"), f"icon {css}".strip()
    return format_html('<svg class="{}" aria-hidden="true"><use href="{}#{}"/></svg>', classes, sprite, name)


@lru_cache(maxsize=256)
def _state(name: str, pill: bool, text: str) -> SafeString:
    known = words.STATES[name]
    drawn = _icon(known.icon, "ls-spin" if name == "STARTING" else "")
    css = f"ls-state {known.css}{' pill' if pill else ''}"
    return format_html('<span class="{}">{}{}</span>', css, drawn, text or known.word)
