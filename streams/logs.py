"""How a process talks about itself: an event name and key=value, as text for people or as JSON for machines."""

import logging
import sys
from typing import Any

import structlog

from streams.settings import Environment

LEVELS = ("debug", "info", "warning", "error", "critical")


def configure_logs(environment: Environment | None = None) -> None:
    """Set up logging for this process, on stderr, from LOG_LEVEL, LOG_FORMAT and SERVICE_NAME."""
    env = environment or Environment()
    level = logging.getLevelNamesMapping()[env.choice("LOG_LEVEL", "info", LEVELS).upper()]
    shape = env.choice("LOG_FORMAT", "auto", ("auto", "json", "text"))
    service = env.text("SERVICE_NAME")
    machine = shape == "json" or (shape == "auto" and not sys.stderr.isatty() and env.text("KUBERNETES_SERVICE_HOST"))
    steps: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    if service:
        steps.insert(0, lambda _logger, _name, event: {"service": service, **event})
    last = structlog.processors.JSONRenderer() if machine else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[*steps, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
