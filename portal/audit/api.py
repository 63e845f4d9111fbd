"""``GET /audit``: who did what, for admins; others see what they did themselves. Also as CSV and as JSON lines."""

from __future__ import annotations

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from base.core.errors import BadRequest
from portal.audit import queries, words
from portal.shared.api.v1 import V1View
from portal.shared.viewer import user_of


class AuditPage(TypedDict):
    """Newest first. ``older`` is the ``before`` of the next page; null on the last one."""

    events: list[queries.AuditItem]
    older: int | None


_TEXTS = {
    "who": "The user who did it.",
    "what": "An action, as ``action`` has it.",
    "on": "The object.",
    "q": "A part of a name, an address or a reason.",
}
_PARAMETERS = [
    *(OpenApiParameter(name, str, description=says) for name, says in _TEXTS.items()),
    OpenApiParameter("k", str, enum=list(words.KINDS), description="The kind."),
    OpenApiParameter("since", str, enum=list(queries.SPANS), description="How far back; 7d unless it is given."),
    OpenApiParameter("before", int, description="Older than the row with this id."),
    OpenApiParameter("after", int, description="Newer than the row with this id."),
    OpenApiParameter("format", str, enum=["json", "jsonl", "csv"], description="jsonl and csv: all rows, streamed."),
]
_KINDS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


class Audit(V1View):
    @extend_schema(
        summary="Who did what, from where and when: all of it for admins, for others what they did",
        parameters=_PARAMETERS,
        responses={
            (200, "application/json"): AuditPage,
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/x-ndjson"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        viewer = user_of(request)
        asked = queries.AuditQuery.read(request.query_params.dict())
        kind = request.query_params.get("format", "json")
        if kind == "json":
            rows, _, older = queries.page_of(viewer, asked)
            return Response({"events": [queries.AuditItem.of(row) for row in rows], "older": older or None})
        if kind not in _KINDS:
            raise BadRequest("format must be json, jsonl or csv.")
        write = queries.csv_pieces if kind == "csv" else queries.line_pieces
        answer = StreamingHttpResponse(write(viewer, asked), content_type=_KINDS[kind])
        answer["Content-Disposition"] = f'attachment; filename="audit.{kind}"'
        answer["Cache-Control"] = "no-store"
        return answer
