"""Which platforms there are and the rules each one lives by."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from streams.errors import BadConfiguration, WrongField
from streams.keys import check_platform


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of one platform."""

    overall: int = 0  # jobs at a time over all consumers; 0: no limit
    per_process: int = 10  # jobs at a time in one consumer process
    max_crashes: int = 3  # lost attempts after which the job ends failed: such a job may be what kills its workers
    lane: str | None = None  # platforms of one lane are served by one consumer and share its per_process room

    def __post_init__(self) -> None:
        for field, least in (("overall", 0), ("per_process", 1), ("max_crashes", 1)):
            if getattr(self, field) < least:
                raise WrongField(field, f"must be at least {least}")


ONE_AT_A_TIME: Final = Policy(overall=1, per_process=1)
MANY: Final = Policy()

SHOPS: Final = ("oliveyoung", "ably", "kurly", "hwahae", "musinsa", "zigzag")
EXTRACT: Final = ("extract", "url_extraction", "single_product", "multi_platform")
OTHERS: Final = ("research", "plan-generation", "material-processing")

BUILT_IN: Final[Mapping[str, Policy]] = {
    **dict.fromkeys(SHOPS, ONE_AT_A_TIME),
    **dict.fromkeys(EXTRACT, Policy(overall=1, per_process=1, lane="extract")),
    "default": ONE_AT_A_TIME,
    **dict.fromkeys(OTHERS, MANY),
}


class Platforms(Mapping[str, Policy]):
    """Every declared platform with its policy, in the order of declaration."""

    def __init__(self, policies: Mapping[str, Policy] = BUILT_IN) -> None:
        self._policies = dict(policies)

    def __getitem__(self, name: str) -> Policy:
        return self._policies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def declare(self, names: Iterable[str], policy: Policy = MANY) -> "Platforms":
        """These platforms too; those already declared keep their policy."""
        return Platforms({**self._policies, **{_checked(n): policy for n in names if n not in self._policies}})

    def configure(self, table: Mapping[str, Any]) -> "Platforms":
        """The `[platforms.NAME]` tables of a configuration file, each on top of what is known of NAME."""
        changed = dict(self._policies)
        for name, fields in table.items():
            known = msgspec.to_builtins(changed.get(_checked(name), MANY))
            try:
                changed[name] = msgspec.convert({**known, **fields}, Policy)
            except (msgspec.ValidationError, WrongField, TypeError) as error:
                raise BadConfiguration(f"platform {name} in the configuration file: {error}") from None
        return Platforms(changed)

    def known(self, name: str) -> str:
        """The name itself when it is declared; otherwise a refusal that names those that are."""
        if name not in self._policies:
            raise WrongField("platform", f"not declared; known are {', '.join(self)}")
        return name

    def serving(self, name: str) -> tuple[str, ...]:
        """What a consumer asked to serve `name` serves: a lane's own name stands for the whole lane."""
        return tuple(p for p, policy in self.items() if p == name or policy.lane == name)

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
