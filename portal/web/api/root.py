"""The root of the API, which older clients open to see whether the API is there."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt


@csrf_exempt
def root(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<pre>PAI RESTful API</pre>")
