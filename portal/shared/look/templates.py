"""Loads templates without the layout that is only for their readers: it would be a third of a page's bytes.

White space with a line break becomes one space, as in the browser. Next to a block-level tag, where none shows, it goes
altogether. What stands in <pre> and <textarea> stays as it is written.
"""

from __future__ import annotations

import re

from django.template import Origin
from django.template.loaders import filesystem

_BLOCK = (
    r"</?(?:html|head|meta|link|script|title|body|header|nav|main|aside|section|footer|dialog|div|p|h[1-6]|ul|ol|li|dl|dt"
    r"|dd|table|caption|thead|tbody|tr|th|td|form|fieldset|legend|details|summary|option)\b"
)
_ATTRIBUTES = r"(?:\{[%{][^%}]*[%}]\}|\"[^\"]*\"|[^<>\"{])*+>"
_LAYOUT = re.compile(r"\s*\n\s*(>?)")
_AFTER = re.compile(rf"({_BLOCK}{_ATTRIBUTES}(?:\{{% (?:if|with) [^%]*%\}})*)\s+")
_BEFORE = re.compile(rf"\s+(?=(?:\{{% end(?:if|with) %\}}\s*)*(?:{_BLOCK}|<!))")
_INSIDE = re.compile(rf"(<(?:button|select)\b{_ATTRIBUTES})\s+|\s+(?=</(?:button|select)>)")
_CONDITIONAL = re.compile(
    r" (\{% if [^%]*%\})([\w-]++(?:=\"[^\"]*\")?+(?: [\w-]++(?:=\"[^\"]*\")?+)*+)\{% endif %\}(?=[ >])"
)
_VERBATIM = re.compile(rf"(<(pre|textarea)\b{_ATTRIBUTES})(.*?</\2>)", re.DOTALL)


class TemplateLoader(filesystem.Loader):
    def get_contents(self, origin: Origin) -> str:
        return squeezed(super().get_contents(origin))


def squeezed(text: str) -> str:
    """The template without its layout; what it renders looks the same."""
    parts = _VERBATIM.split(text.strip())  # text, opening tag, its name, what it holds, text, ...
    laid_out = zip(parts[::4], [*parts[1::4], ""], [*parts[3::4], ""], strict=True)
    return "".join(_squeezed(before + opening) + verbatim for before, opening, verbatim in laid_out)


def _squeezed(piece: str) -> str:
    piece = _LAYOUT.sub(lambda found: found[1] or " ", piece)
    piece = _INSIDE.sub(r"\1", _CONDITIONAL.sub(r"\1 \2{% endif %}", piece))
    piece, before = _BEFORE.sub("", piece), ""
    while piece != before:  # after each pass one more {% if %} stands next to its tag
        piece, before = _AFTER.sub(r"\1", piece), piece
    return piece
