"""Pages below ``/``. Routes carry no trailing slash; a request with one finds them too."""

from __future__ import annotations

from django.urls import URLPattern

from jobs.log_views import log_page_patterns, log_stream_patterns

urlpatterns: list[URLPattern] = [*log_page_patterns, *log_stream_patterns]
