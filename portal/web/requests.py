"""Django's request, which takes all text for UTF-8, whatever charset a client names.

For a charset Django would read the query before anything is ready to answer an error in it.
"""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.utils.http import parse_header_parameters


class _Utf8:
    content_type: str | None
    content_params: dict[str, str] | None

    def _set_content_type_params(self, meta: Any) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except ValueError:
            self.content_type, self.content_params = "", {}
        self.content_params.pop("charset", None)


class PageRequest(_Utf8, WSGIRequest):
    pass


class StreamRequest(_Utf8, ASGIRequest):
    pass
