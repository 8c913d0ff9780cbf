"""Trees of jobs known in advance: children first, then the job above them, whose handler reads their results."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Raw, Struct

from tailrace.producers.declarations import plain
from tailrace.producers.submissions import Submission, Submitted
from tailrace.streams.errors import WrongField
from tailrace.streams.flows.envelope import FlowNode, seal
from tailrace.streams.flows.spawning import flow_keys
from tailrace.streams.keys import join_id
from tailrace.streams.messages import Job
from tailrace.streams.options import NO_OPTIONS, Options

MOST_JOBS = 10_000  # of a tree
DEEPEST = 20  # levels
LARGEST = 1024 * 1024  # bytes of its envelope


class Flow(Struct, frozen=True):
    """A job, and the jobs that are to end before its handler is called."""

    platform: str
    kind: str
    args: object = None
    children: Sequence["Flow"] = ()
    options: Options = NO_OPTIONS

    def submission(self, key: str | None = None, level: int = 1) -> Submission:
        """The submission of this tree. Raises `WrongField` when it is too deep, also when it contains itself."""
        if level > DEEPEST:
            raise too_deep()
        below = tuple(child.submission(level=level + 1) for child in self.children)
        return Submission(self.platform, self.kind, plain(self.args), key, self.options, below)


class SubmittedFlow(Submitted, frozen=True, kw_only=True):
    """The job at the root of a tree, and the ids that its children will have once it starts."""

    children: tuple[str, ...]


def with_children(root: Job, submission: Submission, check: Callable[[Submission], Job]) -> Job:
    """The job that carries its children. Raises `WrongField` naming the part of the tree that is wrong."""
    jobs = 1

    def node(parent: Submission, child: Submission, place: str, level: int) -> FlowNode:
        nonlocal jobs
        jobs += 1
        if jobs > MOST_JOBS:
            told = f"a tree has at most {MOST_JOBS} jobs, and this one has more; submit several, or fewer, larger jobs"
            raise WrongField("children", told)
        if level > DEEPEST:
            raise too_deep()
        try:
            check_child(parent, child)
            job = check(child)
        except WrongField as error:
            raise WrongField(f"{place}.{error.field}", error.reason) from None
        below = nodes(child, f"{place}.children", level + 1)
        return FlowNode(job.platform, job.kind, Raw(job.args), job.options, tuple(below))

    def nodes(parent: Submission, place: str, level: int) -> Iterator[FlowNode]:
        for index, child in enumerate(parent.children):
            yield node(parent, child, f"{place}[{index}]", level)

    payload = seal(root.args, tuple(nodes(submission, "children", 2)))
    if len(payload) > LARGEST:
        raise WrongField(
            "children", f"a tree has at most {LARGEST} bytes with all its args; this one has {len(payload)}"
        )
    return Job(root.platform, root.key, root.kind, payload, root.options, flow=True)


def too_deep() -> WrongField:
    return WrongField(
        "children",
        f"a tree has at most {DEEPEST} levels, and this one has more, or holds a job that is below itself; "
        "the handler of its lowest jobs may spawn others",
    )


def check_child(parent: Submission, child: Submission) -> None:
    """Raise `WrongField` for options with which a parent would wait for ever."""
    order = child.options.order_key
    if child.id is not None:
        raise WrongField("id", "is only for the root; the ids of children are made of it")
    if child.options.dedupe is not None:
        raise WrongField("dedupe", "is not for a child: its parent awaits this very job")
    if order is not None and (order, child.platform) == (parent.options.order_key, parent.platform):
        raise WrongField("order_key", "is that of its parent: each would wait for the other")


def children_of(root: str, submission: Submission) -> tuple[str, ...]:
    """The ids that the children of a tree's root will have."""
    keys = flow_keys(root, (child.kind for child in submission.children))
    return tuple(join_id(child.platform, key) for child, key in zip(submission.children, keys, strict=True))
