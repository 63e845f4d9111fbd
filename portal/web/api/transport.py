"""Answers of the API may be read from any origin, and larger ones in JSON are compressed.

Any origin may call, as in v1, since plug-ins are served from elsewhere. No answer allows credentials, so a browser
sends no cookie along, and a foreign page has no more rights than the token it brings itself.

Ours, because django-cors-headers answers a preflight with a fixed list of headers, where v1 allows whatever was asked
for, and Django's GZipMiddleware also compresses pages and holds events of live streams back in its buffer.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.text import compress_string

from portal.web.api.answers import is_api

_METHODS = "GET,HEAD,PUT,PATCH,POST,DELETE"
_READABLE = "Location,X-Warning,ETag,X-Log-Size,X-Log-Complete"
_PREFLIGHT_SECONDS = "3600"
_LEAST = 1024  # bytes; below it compression gains nothing


class ApiTransport(MiddlewareMixin):
    """The first middleware: it also answers preflights, and adds its headers to the errors of those that follow."""

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:
        if request.method != "OPTIONS" or not _is_open(request):
            return None
        answer = HttpResponse(status=204)
        answer["Access-Control-Allow-Methods"] = _METHODS
        answer["Access-Control-Max-Age"] = _PREFLIGHT_SECONDS
        answer["Content-Length"] = "0"
        if asked := request.headers.get("Access-Control-Request-Headers"):
            answer["Access-Control-Allow-Headers"] = asked
        patch_vary_headers(answer, ["Access-Control-Request-Headers"])
        return answer

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if _is_open(request):
            response["Access-Control-Allow-Origin"] = "*"
            response["Access-Control-Expose-Headers"] = _READABLE
            if response.status_code == 304:
                del response["Content-Length"]  # it would be that of the answer which is not sent
            elif isinstance(response, HttpResponse):
                _compress(request, response)
        return response


def _is_open(request: HttpRequest) -> bool:
    return is_api(request) or request.path_info.startswith("/healthz")


def _compress(request: HttpRequest, response: HttpResponse) -> None:
    kind = response.get("Content-Type", "")
    if not kind.startswith("application/json") or response.has_header("Content-Encoding"):
        return
    patch_vary_headers(response, ["Accept-Encoding"])
    if len(response.content) < _LEAST or not _takes_gzip(request.headers.get("Accept-Encoding", "")):
        return
    response.content = compress_string(response.content)
    response["Content-Encoding"] = "gzip"
    response["Content-Length"] = str(len(response.content))


def _takes_gzip(accepts: str) -> bool:
    for part in accepts.split(","):
        coding, _, quality = part.strip().lower().partition(";")
        if coding.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
