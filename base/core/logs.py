"""Configures logs: one line for each record, from our own loggers and from every library, with the id of the
request."""

from __future__ import annotations

import logging
import logging.config
import sys
from typing import Any

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
]
_REFUSED = 300  # characters of what is said of a request that was refused


def configure(config: dict[str, Any]) -> None:
    """Django calls this with settings.LOGGING: {"level": "INFO"}."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    console = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(),
        pad_event_to=0,
        pad_level=False,
        exception_formatter=structlog.dev.plain_traceback,  # the default shows locals where rich is there: passwords
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": _SHARED,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, console],
    }
    talkative = ("django", "axes", "urllib3", "boto3", "botocore", "docker", "hdfs", "uvicorn", "django-q")
    quiet = {name: {"level": "WARNING"} for name in talkative}
    quiet["django.request"] = {"level": "ERROR"}  # a 404 is no news
    quiet["django.security.csrf"] = {"level": "ERROR"}  # nor is a form that was refused: anybody can send thousands
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": formatter},
            "filters": {"refused": {"()": lambda: _shortened}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["refused"]}},
            "root": {"handlers": ["stderr"], "level": config["level"]},
            "loggers": {name: {"handlers": [], "propagate": True, **level} for name, level in quiet.items()},
        }
    )


def _shortened(record: logging.LogRecord) -> bool:
    """Django tells of a request that it refuses (its Host, its number of fields) as of an error of ours. Anybody can
    send thousands of them, as long as they like, and where in the code each was refused says nothing."""
    if record.name.startswith("django.security."):
        record.msg, record.args, record.exc_info = record.getMessage()[:_REFUSED], None, None
    return True
