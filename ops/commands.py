"""Every command with its arguments. Help is made of this table alone, so it imports no package."""

from pathlib import Path
from typing import Any, NamedTuple

from tailrace.ops.hints import DEFAULT_DATA


class Argument(NamedTuple):
    names: tuple[str, ...]
    settings: dict[str, Any]


class Command(NamedTuple):
    help: str
    arguments: tuple[Argument, ...] = ()
    role: str = ""
    """The package that has this command line."""
    usage: str = ""
    """Its arguments, where they cannot be shown from the table."""
    more: str = ""
    """More about it, in its own help only."""
    module: str = ""
    """The module in `ops` behind it, when that is not `cli.<command>`."""
    takes_rest: bool = False
    """An unknown flag is not an error: it is in `options.rest`, for the tool behind the command."""


def argument(*names: str, **settings: Any) -> Argument:
    return Argument(names, settings)


def seconds(flag: str, option: str, help: str) -> Argument:
    return argument(flag, dest=option, metavar="SECONDS", type=float, help=help)


JOB = argument("job", metavar="JOB", help="the job id, <platform>.<key>")
PLATFORM = argument("platform", metavar="PLATFORM", help="a platform")
JSON = argument("--json", action="store_true", help="print JSON, for programs")
WATCH = argument("--watch", action="store_true", help="show it again every two seconds, until Ctrl-C")
BY = argument("--by", metavar="NAME", help="your name, which clients see (default: your login)")
REASON = argument("--reason", metavar="TEXT", help="the reason, which clients see")
FILTER = (
    argument("--kind", metavar="KIND", help="only jobs of this kind"),
    argument("--error", metavar="TYPE", help="only jobs that failed with this type of error"),
)
DATA = argument(
    "--data",
    metavar="DIR",
    type=Path,
    default=DEFAULT_DATA,
    help="the data folder of `up` (default: .tailrace)",
)

GROUPS = {
    "Run": ("init", "up", "gateway", "consume", "race"),
    "Submit and watch": ("submit", "follow", "history", "show", "flow"),
    "Look": ("running", "platforms", "workers", "dead"),
    "Act": ("cancel", "retry", "signal", "drop", "replay", "pause", "resume", "restart", "schedules", "apply"),
    "Operate": ("audit", "alerts", "drill", "doctor", "keys", "bench"),
    "Develop": ("docs", "test", "check"),
}
"""Every command once, as help lists them."""

COMMANDS = {
    "init": Command(
        "write a starter project: a handler with its test, a configuration, a compose file",
        (argument("folder", metavar="DIR", type=Path, help="a new or an empty folder"),),
        module="starter.init",
    ),
    "up": Command(
        "run everything on this machine: store, gateway, consumers",
        (
            argument("--port", type=int, help="port of the gateway (default: PORT, else 3989)"),
            DATA,
            argument("--platforms", metavar="A,B,…", help="start consumers for these only (default: all)"),
            argument("--cluster", metavar="N", type=int, help="start a cluster of N primaries instead of one server"),
        ),
        module="up.up",
    ),
    "race": Command(
        "freeze a worker in mid-job, let another take over, thaw it, show the history",
        (
            argument("--rounds", metavar="N", type=int, default=1, help="number of races (default: 1)"),
            argument(
                "--moment", metavar="SECONDS", type=float, help="freeze it this long into the job (default: random)"
            ),
            argument("--seed", metavar="N", type=int, help="seed of the random moments (default: random)"),
            JSON,
        ),
        module="race.race",
    ),
    "gateway": Command(
        "serve HTTP in the foreground",
        (
            argument(
                "--host", help="address to listen on; without API keys loopback only (default: HOST, else 127.0.0.1)"
            ),
            argument("--port", type=int, help="port to listen on, 0: any free one (default: PORT, else 3989)"),
            argument(
                "--processes", type=int, help="processes on this port (default: TAILRACE_GATEWAY_PROCESSES, else 1)"
            ),
        ),
        role="gateway",
    ),
    "consume": Command(
        "run jobs in the foreground",
        (
            argument(
                "platforms",
                nargs="*",
                metavar="PLATFORM",
                help="platforms to serve (default: WORKER_PLATFORMS, else all)",
            ),
            argument("--handlers", metavar="MODULE", help="import path or file of your handlers"),
            argument("--reload", action="store_true", help="restart when a file of the handlers changes (development)"),
        ),
        role="consumers",
    ),
    "submit": Command(
        "submit a job and print its id",
        (  # a flag whose `dest` is the name of an option, or is called like it, gives that option
            argument("platform", metavar="PLATFORM", help="the platform to run it on"),
            argument("kind", metavar="KIND", help="the kind of its handler"),
            argument("args", metavar="ARGS", nargs="?", default="{}", help="JSON, @file, or - for stdin (default: {})"),
            argument("--id", metavar="KEY", help="your own key: submitting the same key twice makes one job"),
            argument(
                "--priority", metavar="BAND", default="normal", help="urgent, high, normal or low (default: normal)"
            ),
            seconds("--delay", "delay_seconds", "start it this much later"),
            argument("--run-at", metavar="TIME", help="start it at this time, such as 2027-01-31T09:00:00Z"),
            argument("--expires-at", metavar="TIME", help="fail it if it has not started by this time"),
            argument("--first", action="store_true", help="put it before all waiting jobs"),
            argument("--attempts", metavar="N", type=int, help="how many attempts may fail before the job does"),
            seconds("--timeout", "timeout_seconds", "how long an attempt may take"),
            argument("--order-key", metavar="KEY", help="jobs with the same key run one after the other"),
            argument("--limit-key", metavar="KEY", help="jobs with the same key share the platform's limits per key"),
            argument(
                "--dedupe",
                dest="dedupe.key",
                metavar="KEY",
                help="if a job with this key has not ended, use that job instead",
            ),
            argument(
                "--dedupe-mode",
                dest="dedupe.mode",
                metavar="MODE",
                help="until_done, throttle or debounce (default: until_done); debounce needs --delay or --run-at",
            ),
            seconds("--dedupe-ttl", "dedupe.ttl_seconds", "with throttle: how long the key counts"),
            seconds("--keep", "keep_seconds", "how long the job is kept after its end"),
            argument("--traceparent", metavar="TEXT", help="the trace it belongs to: a W3C traceparent"),
            argument("--follow", action="store_true", help="show the progress, then the result"),
            argument(
                "--json",
                action="store_true",
                help="print JSON, for programs: the answer, and with --follow the last event",
            ),
            DATA,
        ),
    ),
    "follow": Command("show a job live until it ends", (JOB, JSON, DATA), module="cli.watch"),
    "history": Command("show the events of a job", (JOB, JSON, DATA), module="cli.watch"),
    "show": Command(
        "show the record of a job",
        (JOB, JSON, DATA),
        more=", and why it waits; this takes some seconds, because it watches the consumers",
    ),
    "running": Command("list running and waiting jobs", (WATCH, JSON, DATA)),
    "platforms": Command(
        "list the platforms with their counts; or change the policy of one",
        (
            argument("words", nargs="*", metavar="WORD", help="`set`, a platform, and name=value …"),
            argument("--nodes", action="store_true", help="show which server has each platform"),
            WATCH,
            BY,
            JSON,
            DATA,
        ),
        usage="[--nodes] [--json]\nset PLATFORM name=value … [--by NAME] [--json]",
        more="; consumers and gateways follow it within two seconds",
    ),
    "audit": Command(
        "show who did what, newest first",
        (
            argument("platform", metavar="PLATFORM", nargs="?", help="only this platform (default: all)"),
            argument("--limit", metavar="N", type=int, default=50, help="about this many at most (default: 50)"),
            JSON,
            DATA,
        ),
        more=": pause, resume, restart, cancel, retry, drop, replay, policies; the last thousand of each platform",
        module="monitoring.audit",
    ),
    "apply": Command(
        "apply the policies and schedules of a configuration file to a running system",
        (
            argument("file", metavar="FILE", type=Path, help="such as tailrace.toml"),
            argument("--dry-run", action="store_true", help="show the changes, and make none"),
            argument(
                "--prune", action="store_true", help="remove schedules that came from a file and are not in it now"
            ),
            BY,
            JSON,
            DATA,
        ),
    ),
    "workers": Command("list the workers and whether they are alive", (WATCH, JSON, DATA)),
    "cancel": Command(
        "end a waiting job, or ask a running one to stop", (JOB, REASON, BY, JSON, DATA), module="cli.act"
    ),
    "retry": Command("run a failed or cancelled job again", (JOB, BY, JSON, DATA), module="cli.act"),
    "signal": Command(
        "send a signal to a job, now or before it awaits the signal",
        (
            JOB,
            argument("name", metavar="NAME", help="name of the signal; the first signal of a name counts"),
            argument(
                "json_data",
                metavar="DATA",
                nargs="?",
                default="null",
                help="JSON, @file, or - for stdin (default: null)",
            ),
            JSON,
            DATA,
        ),
        module="cli.act",
    ),
    "flow": Command("show the jobs that a job spawned, at all levels, as a tree", (JOB, JSON, DATA)),
    "drop": Command("remove a failed or cancelled job with its history", (JOB, BY, JSON, DATA), module="cli.act"),
    "dead": Command(
        "list failed jobs, newest first",
        (
            argument("platform", metavar="PLATFORM", nargs="?", help="only this platform (default: all)"),
            *FILTER,
            argument(
                "--limit", metavar="N", type=int, default=100, help="at most this many of each platform (default: 100)"
            ),
            WATCH,
            JSON,
            DATA,
        ),
    ),
    "replay": Command(
        "run the failed jobs of a platform again",
        (
            PLATFORM,
            *FILTER,
            argument("--limit", metavar="N", type=int, help="at most this many, oldest first (default: all)"),
            argument("--yes", action="store_true", help="do not ask for confirmation"),
            BY,
            JSON,
            DATA,
        ),
        module="cli.dead",
    ),
    "pause": Command(
        "start no more jobs of a platform; running jobs go on", (PLATFORM, BY, JSON, DATA), module="cli.act"
    ),
    "resume": Command("start the jobs of a paused platform again", (PLATFORM, BY, JSON, DATA), module="cli.act"),
    "restart": Command(
        "ask the workers of a platform to drain and start again", (PLATFORM, BY, JSON, DATA), module="cli.act"
    ),
    "schedules": Command(
        "list schedules; or set, pause, resume or remove one",
        (
            argument(
                "words",
                nargs="*",
                metavar="WORD",
                help="a platform to list; or set, pause, resume or remove, with PLATFORM and NAME",
            ),
            argument("--cron", metavar="EXPR", help="cron expression of five fields, or six with seconds first"),
            argument(
                "--tz", metavar="ZONE", default="UTC", help="time zone of --cron, such as Europe/Berlin (default: UTC)"
            ),
            seconds("--every", "every_seconds", "submit a job each time this many seconds have passed, 1 or more"),
            argument(
                "--missed",
                metavar="HOW",
                default="skip",
                help="which ticks without a consumer are made up for: skip (none), once (the last) or all",
            ),
            argument(
                "--options", metavar="JSON", default="{}", help='options of each job, such as {"priority": "low"}'
            ),
            BY,
            JSON,
            DATA,
        ),
        usage="[PLATFORM] [--json]\nset PLATFORM NAME KIND [ARGS] (--cron EXPR [--tz ZONE] | --every SECONDS) "
        "[--missed HOW] [--options JSON]\npause PLATFORM NAME\nresume PLATFORM NAME\nremove PLATFORM NAME",
    ),
    "keys": Command(
        "make a new API key: the key itself, and its hash for TAILRACE_API_KEYS",
        (argument("what", metavar="new", choices=("new",), help="makes a new key"),),
    ),
    "doctor": Command(
        "check that the store is fit and no job is stuck",
        (argument("--repair", action="store_true", help="repair what can be repaired safely"), JSON, DATA),
        module="doctor.doctor",
    ),
    "alerts": Command(
        "watch the store and send alerts to Slack and Discord",
        (
            argument(
                "--waiting",
                metavar="N",
                type=int,
                default=1000,
                help="alert on this many jobs in one queue (default: 1000)",
            ),
            argument(
                "--oldest",
                metavar="SECONDS",
                type=float,
                default=600.0,
                help="alert when a job waits longer (default: 600)",
            ),
            argument(
                "--remind",
                metavar="SECONDS",
                type=float,
                default=14400.0,
                help="repeat an alert after this time, 0: never (default: 14400)",
            ),
            argument("--quiet", metavar="HH:MM-HH:MM", help="hours in which warnings wait; critical ones do not"),
            argument(
                "--tz", metavar="ZONE", default="UTC", help="time zone of --quiet, such as Europe/Berlin (default: UTC)"
            ),
            argument("--test", action="store_true", help="send one message to each receiver, and end"),
            DATA,
        ),
        more="; TAILRACE_SLACK_URL and TAILRACE_DISCORD_URL, or the same with _FILE, name the receivers",
        module="monitoring.alerts",
    ),
    "drill": Command(
        "submit a short job to each platform, and show which completed",
        (
            argument("platforms", nargs="*", metavar="PLATFORM", help="only these (default: all)"),
            argument("--seconds", metavar="N", type=float, default=30.0, help="how long to wait (default: 30)"),
            JSON,
            DATA,
        ),
        module="drill",
    ),
    "bench": Command(
        "measure the speed on this machine, and the raw speed of its store",
        (
            argument("--quick", action="store_true", help="take a few seconds, with less exact figures"),
            argument("--only", metavar="A,B,…", help="take only these measures (default: all)"),
            argument(
                "--costs",
                action="store_true",
                help="count the instructions of each transition instead (needs valgrind)",
            ),
            argument("--data", metavar="DIR", type=Path, help="folder of its store (default: a temporary one)"),
            JSON,
        ),
        module="bench.bench",
    ),
    "docs": Command(
        "print a guide or a reference; without a topic, list them",
        (argument("topic", metavar="TOPIC", nargs="?", help="name of a guide, such as first-job"),),
        module="docs",
    ),
    "test": Command("run the tests; pytest's own options may follow", takes_rest=True),
    "check": Command("check format, lint, types and imports"),
}


def flags_of(command: str) -> dict[str, str]:
    """The flags of a command by what they say: a refusal of `delay_seconds` is about `--delay`."""
    flags = [(names[0], settings) for names, settings in COMMANDS[command].arguments if names[0].startswith("--")]
    return {settings.get("dest", name[2:].replace("-", "_")): name for name, settings in flags}
