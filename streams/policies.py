"""The declared platforms, and the policy of each."""

import copy
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from tailrace.streams.errors import BadConfiguration, WrongField
from tailrace.streams.functions import functions
from tailrace.streams.keys import WORD_FORM, check_platform
from tailrace.streams.options import (
    LONGEST_SECONDS,
    Attempts,
    Backoff,
    Retrying,
    Seconds,
    Share,
    check_retrying,
)
from tailrace.streams.validation import allowed, between, check_fields, sentence_of

MOST: Final = 100_000
MAX_EVENTS: Final = 10_000  # more than a person reads
MAX_STEP_BYTES: Final = 16 * 1024 * 1024  # a step saves what the next one needs; larger data is kept elsewhere

NOT_ONE: Final = f"must be 0, or from 2 to {MOST}: with 1 every start would be for a lower band"

Limit = Annotated[int, between(0, MOST)]  # 0: none
Count = Annotated[int, between(1, MOST)]
Events = Annotated[int, between(10, MOST)]
StepBytes = Annotated[int, between(1024, 1024**3)]
Placement = Annotated[str, allowed(re.compile(WORD_FORM).fullmatch, "must be 1 to 64 of A-Z a-z 0-9 . _ -")]
Turn = Annotated[int, allowed(lambda n: n == 0 or 2 <= n <= MOST, NOT_ONE, minimum=0, maximum=MOST)]
Durability = Literal["primary", "replicated"]
Window = Annotated[float, between(0.001, LONGEST_SECONDS, "must be at least 0.001, and at most ten years")]


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of one platform."""

    # `rules_of` passes to a transition those that its header names.

    max_running: Limit = 0  # jobs at a time over all consumers, on all platforms of its lane; 0: no limit
    max_running_per_process: Count = 10  # jobs at a time in one consumer process
    placement: Placement | None = None  # the hash tag of its keys, instead of its name; never changed while it has jobs
    lane: Placement | None = None  # its platforms share `max_running`, and in one consumer `max_running_per_process`
    attempts: Attempts = 3  # attempts that may raise before the job ends failed
    backoff: Backoff = "exponential"  # the pause before the next one: doubled each time, or always the same
    backoff_seconds: Seconds = 1.0  # the first pause
    backoff_cap_seconds: Seconds = 3600.0  # the longest pause
    jitter: Share = 0.2  # the part of a pause that is left to chance, so that many failures do not come back as one
    max_crashes: Count = 3  # lost attempts after which the job ends failed: such a job may be what kills its workers
    max_starts: Count = 100  # attempts of any kind after which the job ends failed: else it could be started for ever
    max_events: Events = MAX_EVENTS  # of a job; further reports are refused, its starts and its end are not
    max_step_bytes: StepBytes = MAX_STEP_BYTES  # of all steps of a job; a step beyond is refused
    timeout_seconds: Seconds = 0.0  # how long one attempt may take; 0: any time
    lifetime_seconds: Seconds = 0.0  # how long a job may take from its first start, all attempts; 0: any time
    share: Turn = 10  # one start in this many is for a lower band, so that none starves; 0: never
    rate: Limit = 0  # starts within rate_seconds, over all consumers; 0: no limit
    rate_seconds: Window = 1.0
    max_running_per_key: Limit = 0  # jobs at a time with the same limit_key; 0: no limit
    key_rate: Limit = 0  # starts within key_rate_seconds of jobs with the same limit_key; 0: no limit
    key_rate_seconds: Window = 1.0
    order: Literal["block", "skip", "strict"] = "block"  # what others do while a job waits for another attempt
    keep_completed_seconds: Seconds = 3600.0
    keep_completed: Limit = 100  # at most this many; never one that ended less than a minute ago; 0: any number
    keep_failed_seconds: Seconds = 86_400.0  # and cancelled ones
    keep_failed: Limit = 0  # at most this many; 0: any number
    durability: Durability = "primary"  # which servers have a write when it is answered: the primary, or also replicas

    def __post_init__(self) -> None:
        check_fields(self)
        check_retrying(Retrying(**{name: getattr(self, name) for name in Retrying.__struct_fields__}))
        if self.attempts > self.max_starts:
            raise WrongField(
                "attempts", f"is {self.attempts}, above the {self.max_starts} of max_starts, which counts every attempt"
            )

    def retrying(self, said: Retrying) -> "Policy":
        """The policy with the options of a job. Raises `WrongField` when they contradict it."""
        own = {name: value for name in Retrying.__struct_fields__ if (value := getattr(said, name)) is not None}
        return msgspec.structs.replace(self, **own)


_read_retrying = msgspec.json.Decoder(Retrying).decode

MANY: Final = Policy()  # the rules of a platform that is declared without any


class Platforms(dict[str, Policy]):
    """Every declared platform with its policy, in the order of declaration. Nothing changes it: methods copy."""

    def declare(self, names: Iterable[str], policy: Policy = MANY) -> "Platforms":
        """Platforms with these added; those already declared keep their policy."""
        return Platforms({**self, **{_checked(n): policy for n in names if n not in self}})

    def configure(self, table: Mapping[str, Any]) -> "Platforms":
        """The `[platforms.NAME]` tables of a configuration file, each on top of what is known of NAME."""
        changed = dict(self)
        for name, fields in table.items():
            known = msgspec.to_builtins(changed.get(_checked(name), MANY))
            try:
                changed[name] = msgspec.convert({**known, **fields}, Policy)
            except msgspec.ValidationError as error:
                raise BadConfiguration(f"platform {name}: {sentence_of(error, Policy)}") from None
            except (WrongField, TypeError) as error:
                raise BadConfiguration(f"platform {name}: {error}") from None
        return Platforms(changed)

    def known(self, name: str) -> str:
        """The name, if it is declared. Raises `WrongField`, which lists the declared ones."""
        if name not in self:
            raise WrongField(
                "platform",
                f"{name[:100]!r} is not declared; known are {', '.join(self)}; "
                "declare it in TAILRACE_CONFIG or TAILRACE_PLATFORMS",
            )
        return name

    def serving(self, name: str) -> tuple[str, ...]:
        """The platforms that `consume NAME` serves: the name of a lane stands for the whole lane."""
        return tuple(p for p, policy in self.items() if p == name or policy.lane == name)

    def siblings(self, name: str) -> tuple[str, ...]:
        """The other platforms of its lane."""
        lane = self[name].lane
        return tuple(p for p, policy in self.items() if lane and policy.lane == lane and p != name)

    def tags(self, *, clustered: bool) -> dict[str, str]:
        """The hash tags that are not the platform's name: its placement, or on a cluster its lane.

        The platforms of a lane are touched by one call, so they are in one slot.
        """
        tags = {name: tag for name, each in self.items() if (tag := each.placement or (clustered and each.lane))}
        for name, tag in tags.items():
            if any(tags.get(sibling) != tag for sibling in self.siblings(name)):
                raise BadConfiguration(
                    f"platform {name}: placement is {tag!r}, but not on all of its lane; give them the same"
                )
            if not re.fullmatch(WORD_FORM, tag):
                raise BadConfiguration(
                    f"platform {name}: lane is {tag!r}; on a cluster it must be 1 to 64 of A-Z a-z 0-9 . _ -"
                )
        return tags

    def lanes(self) -> dict[str, tuple[str, ...]]:
        """The platforms by the consumer process that serves them."""
        lanes: dict[str, tuple[str, ...]] = {}
        for name, policy in self.items():
            lane = policy.lane or name
            lanes[lane] = (*lanes.get(lane, ()), name)
        return lanes


def _checked(name: str) -> str:
    try:
        return check_platform(name)
    except WrongField as error:
        raise BadConfiguration(f"platform {name!r}: {error.reason}") from None


def rules_for(policy: Policy, options: bytes | str | None) -> Policy:
    """The rules of an accepted job, whose record keeps these options.

    What contradicted the rules was refused when the job was accepted; if they have changed since, the stricter holds.
    """
    if not options:
        return policy
    said, rules = _read_retrying(options), copy.copy(policy)
    for name in Retrying.__struct_fields__:
        if (value := getattr(said, name)) is not None:
            force_setattr(rules, name, value)  # `replace` would check them again
    return rules


@cache
def rules_of(transition: str, policy: Policy, siblings: tuple[str, ...] = ()) -> Mapping[str, int | str]:
    """The arguments of a transition for the rules that its header names: times in ms, `lane` as its siblings."""
    rules: dict[str, Any] = {"lane": " ".join(siblings)}
    for name, value in msgspec.structs.asdict(policy).items():
        if name.endswith("_seconds"):
            rules[name.removesuffix("seconds") + "ms"] = round(value * 1000)
        else:
            rules.setdefault(name, value)
    return {name: rules[name] for name in functions()[transition].rules}
