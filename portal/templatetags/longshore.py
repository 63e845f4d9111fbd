"""Template tags and filters every template has without loading them."""

from __future__ import annotations

from django import template

register = template.Library()
