"""Finds the routes of addresses as older clients write them: v1 minded neither the case of letters nor doubled slashes.

Only an address that no route takes as it is written is looked at again. Names in it (of users, jobs, virtual clusters)
keep their letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import Resolver404, ResolverMatch, URLPattern, URLResolver, get_resolver, resolve
from django.urls.resolvers import RoutePattern
from django.views.decorators.csrf import csrf_exempt

from portal.shared.error_pages import not_found

_ROOTS = ("api", "rest-server")
_REST, _API = ("".join(f"[{a}{a.upper()}]" if a.isalpha() else a for a in word) for word in ("rest-server", "api"))
PREFIX = rf"/*(?:{_REST}/+)?{_API}/"  # of the path after its first slash; Django can reverse no regex with a flag


@csrf_exempt
def root(request: HttpRequest) -> HttpResponse:
    """What older clients open to see whether the API is there."""
    return HttpResponse("<pre>PAI RESTful API</pre>")


@csrf_exempt
def other_spelling(request: HttpRequest) -> HttpResponseBase:
    """Answer by the route that is meant, or with NoApiError. Exempt from CSRF checks, as it is no form that fails
    here."""
    meant = _meant(request.path_info)
    if meant is None:
        return not_found(request)
    request.path_info, request.resolver_match = meant
    answer: HttpResponseBase = meant[1].func(request, *meant[1].args, **meant[1].kwargs)
    return answer


@cache
def routes() -> tuple[str, ...]:
    """Every address of the API, as ``/api/v1/user/<str:username>/jobs``, in the order of the routes."""
    return tuple(f"/{route}" for route in _walk("", get_resolver()) if route.split("/")[0] in _ROOTS)


def _meant(path: str) -> tuple[str, ResolverMatch] | None:
    names = [name for name in path.split("/") if name]
    for route in routes():
        if (spelled := _spelled(names, route.split("/")[1:])) is None:
            continue
        try:
            match = resolve(spelled)
        except Resolver404:
            continue
        if match.func is not other_spelling:
            return spelled, match
    return None


def _spelled(names: list[str], route: list[str]) -> str | None:
    """The address in the letters of the route; None when the route is another one."""
    if len(names) != len(route):
        return None
    pairs = list(zip(names, route, strict=True))
    if any("<" not in ours and name.lower() != ours.lower() for name, ours in pairs):
        return None
    return "/" + "/".join(name if "<" in ours else ours for name, ours in pairs)


def _walk(base: str, resolver: URLResolver) -> Iterator[str]:
    for each in resolver.url_patterns:
        route = base + (str(each.pattern) if isinstance(each.pattern, RoutePattern) else "")
        if isinstance(each, URLResolver):
            yield from _walk(route, each)
        elif isinstance(each, URLPattern) and isinstance(each.pattern, RoutePattern):
            yield route
