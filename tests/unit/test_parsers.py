"""portal.shared.api.parsers.parse_form: nested forms as Node's qs reads them."""

from __future__ import annotations

from typing import Any

import pytest

from base.core.errors import BadRequest
from portal.shared.api.parsers import parse_form


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("a=1&b=", {"a": "1", "b": ""}),
        ("a=x+y%2Bz", {"a": "x y+z"}),
        ("a[b][c]=1", {"a": {"b": {"c": "1"}}}),
        ("a[0]=x&a[1]=y", {"a": ["x", "y"]}),
        ("a[1]=y&a[0]=x&a[10]=z", {"a": ["x", "y", "z"]}),
        ("a[]=x&a[]=y", {"a": ["x", "y"]}),
        ("a=x&a=y&a=z", {"a": ["x", "y", "z"]}),
        ("a%5B0%5D%5Bname%5D=w", {"a": [{"name": "w"}]}),
        ("a[0][p][0][l]=t&a[0][p][0][n]=2&a[0][c]=d", {"a": [{"p": [{"l": "t", "n": "2"}], "c": "d"}]}),
        ("a[0]=x&a[b]=y", {"a": {"0": "x", "b": "y"}}),
        ("a[99999]=x", {"a": {"99999": "x"}}),
        ("a=1&a[b]=2", {"a": {"0": "1", "b": "2"}}),
        ("a[b]=2&a=1", {"a": {"b": "2", "1": "1"}}),
        ("a[b=1", {"a[b": "1"}),
        ("[b]=1", {"[b]": "1"}),
        ("a[²]=1", {"a": {"²": "1"}}),
    ],
)
def test_it_reads(text: str, value: dict[str, Any]) -> None:
    assert parse_form(text) == value


@pytest.mark.parametrize("text", ["a" + "[b]" * 30 + "=1", "&".join(f"a{n}=1" for n in range(5001))])
def test_it_refuses_what_is_too_deep_or_too_wide(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_form(text)
