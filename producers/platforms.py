"""The platforms out of the box."""

from typing import Final

from tailrace.streams.policies import MANY, Platforms, Policy

SHOPS: Final = ("oliveyoung", "ably", "kurly", "hwahae", "musinsa", "zigzag")
EXTRACT: Final = ("extract", "url_extraction", "single_product", "multi_platform")
OTHERS: Final = ("research", "plan-generation", "material-processing")

ONE_AT_A_TIME: Final = Policy(max_running=1, max_running_per_process=1)

BUILT_IN: Final = Platforms(
    {
        **dict.fromkeys(SHOPS, ONE_AT_A_TIME),
        **dict.fromkeys(EXTRACT, Policy(max_running=1, max_running_per_process=1, lane="extract")),
        "default": ONE_AT_A_TIME,
        **dict.fromkeys(OTHERS, MANY),
    }
)
