"""The words and numbers that clients read, each with its form, for the schemas of all answers."""

from typing import Annotated

from msgspec import Meta

from tailrace.streams.keys import KEY_FORM, PLATFORM_FORM, WORD_FORM

# The code that takes one checks it, with its own error: here it is only described.
JobKey = Annotated[str, Meta(extra_json_schema={"pattern": f"^{KEY_FORM}$"})]
JobId = Annotated[str, Meta(extra_json_schema={"pattern": rf"^{PLATFORM_FORM}\.{KEY_FORM}$"})]
PlatformName = Annotated[str, Meta(extra_json_schema={"pattern": f"^{PLATFORM_FORM}$"})]
Word = Annotated[str, Meta(extra_json_schema={"pattern": f"^{WORD_FORM}$"})]

Time = Annotated[
    str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", extra_json_schema={"format": "date-time"})
]
Count = Annotated[int, Meta(ge=0)]
Ordinal = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
Percent = Annotated[float, Meta(ge=0, le=100)]
