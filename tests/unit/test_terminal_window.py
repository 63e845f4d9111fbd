"""What a window says to its shell, when it is no word of ours."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from jobs.terminal.shell import View


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000, "1" * 10_000, '{"resize": [1e999, 1]}'])
def test_what_is_no_message_is_passed_over(text: str) -> None:
    asyncio.run(View(cast("Any", None), cast("Any", None), 0, flow=True)._hear(text))
