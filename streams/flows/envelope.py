"""A tree of jobs known in advance: each job that has children carries them, with its own args, in an envelope.

The envelope is the stored payload of the job, and its options say `flow`. An attempt that opens it spawns the
children, joins them, and calls the handler with the args inside.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tailrace.streams.messages import Claim, Job, encode
from tailrace.streams.options import NO_OPTIONS, Options, handed_options

PLACE = "~flow"  # of the spawn of such children, in their ids


class FlowNode(Struct, frozen=True, omit_defaults=True):
    """A job of a tree, below its root."""

    platform: str
    kind: str
    args: Raw = Raw(b"{}")
    options: Options = NO_OPTIONS
    children: tuple["FlowNode", ...] = ()

    def job(self, key: str) -> Job:
        """The job to be spawned for it."""
        payload = seal(bytes(self.args), self.children) if self.children else bytes(self.args)
        return Job(self.platform, key, self.kind, payload, self.options, flow=bool(self.children))


class Envelope(Struct, frozen=True):
    """The payload of a job with children."""

    args: Raw
    children: tuple[FlowNode, ...]


def seal(args: bytes, children: Sequence[FlowNode]) -> bytes:
    return encode(Envelope(Raw(args), tuple(children)))


unseal = msgspec.json.Decoder(Envelope).decode
"""Raises ValueError when the payload is no envelope."""


def opened(claim: Claim) -> tuple[Claim, tuple[FlowNode, ...]]:
    """A claim with the args of its handler, and the children that its job carries. Raises ValueError as `unseal`."""
    if not claim.options or not handed_options(claim.options).flow:
        return claim, ()
    envelope = unseal(claim.args)
    return replace(claim, args=bytes(envelope.args)), envelope.children


def args_within(options: bytes | str | None, payload: bytes) -> bytes:
    """The args of a job as its handler gets them, whether or not they are in an envelope."""
    return bytes(unseal(payload).args) if handed_options(options).flow else payload
