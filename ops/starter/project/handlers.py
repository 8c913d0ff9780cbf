"""The handlers of this project: one function for each kind of job."""

from msgspec import Struct

from tailrace import Attempt, Handlers

handles = Handlers()


class Guests(Struct, forbid_unknown_fields=True):
    """The args of `greet`; a job whose args do not fit fails before its handler runs."""

    names: list[str]


class Greetings(Struct):
    """Its result."""

    greetings: list[str]


@handles("greet")
async def greet(attempt: Attempt[Guests]) -> Greetings:
    names = attempt.args.names
    greetings: list[str] = []
    for number, name in enumerate(names, start=1):
        # A step is saved once: another attempt at this job does not greet the same person again.
        greetings.append(await attempt.step(f"greet {name}", write, name))
        await attempt.progress(number, of=len(names), message=f"greeted {name}")
    return Greetings(greetings)


async def write(name: str) -> str:
    return f"Hello {name}"
