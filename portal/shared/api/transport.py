"""Answers of the API may be read from any origin.

Any origin may call, as in v1, since plug-ins are served from elsewhere. No answer allows credentials, so a browser
sends no cookie along, and a foreign page has no more rights than the token it brings itself.

Ours, because django-cors-headers answers a preflight with a fixed list of headers, where v1 allows whatever was asked
for.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin

from portal.shared.api.answers import is_api

_METHODS = "GET,HEAD,PUT,PATCH,POST,DELETE"
_READABLE = "Location,X-Warning,ETag,X-Log-Size,X-Log-Complete"
_PREFLIGHT_SECONDS = "3600"


class ApiTransport(MiddlewareMixin):
    """One of the first: it also answers preflights, and adds its headers to the errors of those that follow."""

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
        return response


def _is_open(request: HttpRequest) -> bool:
    return is_api(request) or request.path_info.startswith("/healthz")
