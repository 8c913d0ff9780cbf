"""Log lines: an event name and key=value, as text for people or as JSON for machines."""

import logging
import re
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO, cast

from tailrace.streams.process.settings import Environment

if TYPE_CHECKING:
    from structlog.typing import Processor

TALKATIVE = (  # libraries of ours, and those that handlers often use
    *("anyio", "asyncio", "redis", "sse_starlette", "uvicorn"),
    *("aiohttp", "botocore", "boto3", "h2", "hpack", "httpcore", "httpx", "httpx2", "openai", "s3transfer", "urllib3"),
)

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
    """The text without secrets."""
    return SECRETS.sub(lambda found: f"{found[found.lastgroup or 0]}***", text)


def masked(value: Any) -> Any:
    """A value of a log line without secrets, at any depth."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {masked(name): masked(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked(each) for each in value]
    return mask(repr(value)) if isinstance(value, BaseException | bytes) else value


def mask_values(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: masked(value) for name, value in event.items()}


_facts: ContextVar[dict[str, Any] | None] = ContextVar("facts of a log line", default=None)


def about(**facts: Any) -> None:
    """Add these facts to every line that is logged from here on, in this task, its own tasks and its threads."""
    _facts.set(facts)


def add_facts(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {**facts, **event} if (facts := _facts.get()) else event


def standard_formatter(processors: Sequence["Processor"]) -> logging.Formatter:
    """Writes records of the standard library as lines like our own."""
    import structlog

    read: list[Processor] = [
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
    ]
    write = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *processors]
    return structlog.stdlib.ProcessorFormatter(processors=write, foreign_pre_chain=read)


class OurLogger:
    """Logs as this process was set up to: by `configure_logs`, else with the `logging` of the program around us."""

    configured = False

    def __getattr__(self, name: str) -> Any:
        return getattr(in_our_process() if OurLogger.configured else in_host(), name)


def get_logger() -> Any:
    return OurLogger()


def in_our_process() -> Any:
    import structlog

    return structlog.get_logger()


@cache
def in_host() -> Any:
    """A logger called `tailrace` of the standard library, whose handlers, levels and formats are the host's."""
    import structlog

    return structlog.wrap_logger(
        logging.getLogger("tailrace"),
        processors=[structlog.stdlib.filter_by_level, add_facts, mask_values, as_record],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def as_record(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """An event name and key=value as the text of a record."""
    kept = {"exc_info": event.pop("exc_info")} if "exc_info" in event else {}
    facts = "".join(f" {name}={value}" for name, value in event.items() if name != "event")
    return (f"{event['event']}{facts}",), kept


class JobFacts(logging.Filter):
    """Gives each record of the standard library `job`, `attempt`, `platform` and `owner`, for formats that name them.

    Outside of a handler they are `-`. Add it to a handler of your own logging: `handler.addFilter(JobFacts())`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        facts = _facts.get() or {}
        for name in ("job", "attempt", "platform", "owner"):
            setattr(record, name, facts.get(name, "-"))
        return True


class Unfailing:
    """A stream that drops what it cannot write: a full disk must not end a process because of a log line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


@contextmanager
def as_if_absent(package: str) -> Iterator[None]:
    """Have imports of a package fail that this process has not imported yet."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment] # makes `import` fail
    try:
        yield
    finally:
        del sys.modules[package]


def configure_logs(environment: Environment | None = None) -> None:
    """Set up logging for this process, on stderr, from LOG_LEVEL, LOG_FORMAT and SERVICE_NAME.

    What the standard library's `logging` is given is written too. Libraries that tell of every request and every
    connection say so only from WARNING on, whatever the level; `logging.getLogger(name).setLevel` changes that.
    """
    with as_if_absent("rich"):  # structlog imports it for tracebacks that we do not show: a quarter of a worker's start
        import structlog
    OurLogger.configured = True
    env = environment or Environment()
    level = logging.getLevelNamesMapping()[env.choice("LOG_LEVEL", "info", LEVELS).upper()]
    shape = env.choice("LOG_FORMAT", "auto", ("auto", "json", "text"))
    service = env.text("SERVICE_NAME")
    machine = shape == "json" or (shape == "auto" and not sys.stderr.isatty())
    steps: list[Any] = [
        add_facts,
        structlog.contextvars.merge_contextvars,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    if service:
        steps.insert(0, lambda _logger, _name, event: {"service": service, **event})
    people = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    steps += [mask_values, structlog.processors.JSONRenderer() if machine else people]
    structlog.configure(
        processors=[structlog.processors.add_log_level, *steps],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, Unfailing(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(standard_formatter(steps))
    logging.basicConfig(level=level, handlers=[handler])
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
