"""The kinds that come with Tailrace and the args each one takes; a user's own kinds are checked by the consumer."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tailrace.streams.errors import WrongField
from tailrace.streams.validation import field_of

Text = Annotated[str, Meta(min_length=1, max_length=100_000)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Research(Struct, frozen=True, forbid_unknown_fields=True):
    """Look into a question, in five steps."""

    query: Text


class ScanParams(Struct, frozen=True):
    """The products to scan; other fields of a workflow may stand beside them."""

    # A shop counts its products, or names them, by their address if need be. Nothing named: a few sample pages.
    product_ids: Annotated[list[Annotated[str, Meta(max_length=2000)] | int], Meta(max_length=10_000)] | UnsetType = (
        UNSET
    )


class Scan(Struct, frozen=True, forbid_unknown_fields=True):
    """Walk the products of a shop; `params.product_ids` names them."""

    workflow_id: Name = "scan"
    params: ScanParams = ScanParams()


class MakePlan(Struct, frozen=True, forbid_unknown_fields=True):
    """Make a study plan out of materials, for a goal."""

    userId: Name
    goal: Text
    materialIds: Annotated[list[Name], Meta(max_length=1000)] = []
    planId: Name | None = None  # the plan to fill; else one is named after the job


class ProcessMaterial(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a document, cut it into pieces, and store them with a vector each."""

    materialId: Name
    # A file of the configured folder, or an https address of a configured host; else the file is called as the material
    # is. Where no folder is configured, and there is no such file, a short sample is read.
    document: Name | None = None


class Drill(Struct, frozen=True, forbid_unknown_fields=True):
    """Try a deployment: work, fail, block or die on command. A gateway with keys refuses it unless it is allowed."""

    steps: Annotated[int, Meta(ge=0, le=100_000)] = 5
    seconds: Annotated[float, Meta(ge=0, le=86_400)] = 2.0  # per step
    fail_times: Annotated[int, Meta(ge=0)] = 0  # attempts that raise at step 1
    block: Literal["none", "sleep", "spin", "regex"] = "none"  # how to hold the event loop instead of awaiting
    exit_at_step: Annotated[int, Meta(ge=1)] | None = None  # the process kills itself there
    exit_once: bool = False  # ... on the first attempt only
    result: Any = None
    text: Annotated[str, Meta(max_length=100_000)] | None = None  # the message of each progress event


KINDS: Final[dict[str, type[Struct]]] = {
    "research": Research,
    "scan": Scan,
    "make-plan": MakePlan,
    "process-material": ProcessMaterial,
    "drill": Drill,
}


class Kinds:
    """The kinds that a process accepts: all, except built-in ones that are switched off."""

    def __init__(self, off: Mapping[str, str] | None = None, known: Mapping[str, type[Struct]] = KINDS) -> None:
        """`off`: kinds that are refused, each with the reason that the caller reads. `known`: those with known args."""
        self._off = dict(off or {})
        self._known = known

    @property
    def built_in(self) -> list[str]:
        return [kind for kind in self._known if kind not in self._off]

    def check(self, kind: str, args: Any) -> None:
        """Raise `WrongField` for a kind that is switched off, and for args that a built-in kind cannot take."""
        if reason := self._off.get(kind):
            raise WrongField("kind", reason)
        check_args(kind, args, self._known)


def check_args(kind: str, args: Any, known: Mapping[str, type[Struct]] = KINDS) -> None:
    """Refuse args that a built-in kind cannot take, naming the field."""
    if expected := known.get(kind):
        try:
            msgspec.convert(args, expected)
        except msgspec.ValidationError as error:
            raise WrongField(*field_of(error, "args", expected)) from None
    elif not isinstance(args, dict):
        raise WrongField("args", f"must be an object, not {type(args).__name__}")


ALL_KINDS: Final = Kinds()
NO_BUILT_INS: Final = Kinds(known={})  # where the built-in kinds are left out: a name of theirs is the user's own
