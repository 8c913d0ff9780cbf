"""How a process talks about itself: an event name and key=value, as text for people or as JSON for machines."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from streams.settings import Environment

LEVELS = ("debug", "info", "warning", "error", "critical")

SECRETS = re.compile(
    r"""(?P<before> \bbearer\s+                    # what an Authorization header brings
                  | \b(?:ticket|tailrace_session)=  # in an address, in a cookie
                  | \bhooks\.slack\.com/\w+/ | \bdiscord(?:app)?\.com/api/webhooks/  # who has these may write there
        )[^\s&;,"'@\\]+
      | (?P<address> ://[^\s/@:]*:)[^\s/@]+(?=@)     # the password in the address of a store or of a server
      | (?P<mark> \btr[kts]_)[A-Za-z0-9_-]{16,}      # our own keys, tickets and sessions, wherever they stand
    """,
    re.IGNORECASE | re.VERBOSE,
)


def mask(text: str) -> str:
    """The text without what would let somebody in."""
    return SECRETS.sub(lambda found: f"{found[found.lastgroup or 0]}***", text)


def masked(value: Any) -> Any:
    """The same with whatever a log line holds."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {masked(name): masked(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked(each) for each in value]
    return mask(repr(value)) if isinstance(value, BaseException | bytes) else value


def mask_values(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: masked(value) for name, value in event.items()}


class Masking(logging.Formatter):
    """For what libraries say."""

    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


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
        processors=[*steps, mask_values, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Masking("%(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])
