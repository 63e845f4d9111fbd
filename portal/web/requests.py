"""Django's request, which takes all text for UTF-8, whatever charset a client names, and believes one session at most.

For a charset Django would read the query before anything is ready to answer an error in it.
"""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.utils.functional import cached_property
from django.utils.http import parse_header_parameters

from portal.web.cookies import cookies_of


class _Ours:
    content_type: str | None
    content_params: dict[str, str] | None
    META: dict[str, Any]

    def _set_content_type_params(self, meta: Any) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except ValueError:
            self.content_type, self.content_params = "", {}
        self.content_params.pop("charset", None)

    @cached_property
    def COOKIES(self) -> dict[str, str]:
        return cookies_of(self.META.get("HTTP_COOKIE", ""))


class PageRequest(_Ours, WSGIRequest):  # type: ignore[override]
    pass


class StreamRequest(_Ours, ASGIRequest):  # type: ignore[override]
    pass
