"""The findings of the doctor."""

from msgspec import Struct


class Finding(Struct, frozen=True, omit_defaults=True):
    """The result of one check."""

    about: str  # the subject: a part of the store, or a platform
    says: str
    level: str = "fine"  # fine, advice, wrong or repaired
    next: str = ""  # what to do about it
    job: str = ""
    # `relay`: deliver what its outbox holds; `detach`: let a child go on without its parent; `tidy <what> <name>`: put
    # that right; none: `mend` the job.
    remedy: str = ""


def wrong(about: str, says: str, next_step: str = "", *, job: str = "", remedy: str = "") -> Finding:
    return Finding(about, says, "wrong", next_step, job, remedy)


def advice(about: str, says: str, next_step: str = "", *, job: str = "", remedy: str = "") -> Finding:
    return Finding(about, says, "advice", next_step, job, remedy=remedy)
