"""What a log line must not tell."""

from __future__ import annotations

import logging

import structlog


def test_a_traceback_shows_no_values_of_variables() -> None:
    [handler] = [each for each in logging.getLogger().handlers if _is_ours(each)]
    password = "correct horse"
    try:
        assert len(password) / 0
    except ZeroDivisionError as error:
        info = (type(error), error, error.__traceback__)
        record = logging.LogRecord("portal", logging.ERROR, __file__, 1, "request failed", None, info)
    line = handler.format(record)
    assert "ZeroDivisionError" in line and "test_logs.py" in line
    assert "correct horse" not in line.replace('password = "correct horse"', "")


def _is_ours(handler: logging.Handler) -> bool:
    return isinstance(handler.formatter, structlog.stdlib.ProcessorFormatter)
