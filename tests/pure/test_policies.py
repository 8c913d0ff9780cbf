"""policies: which platforms there are and the rules each one lives by."""

import pytest

from streams.errors import BadConfiguration, WrongField
from streams.policies import EXTRACT, MANY, SHOPS, Platforms, Policy


def test_the_platforms_of_the_box_are_there() -> None:
    assert set(Platforms()) == {
        *("oliveyoung", "ably", "kurly", "hwahae", "musinsa", "zigzag"),
        *("extract", "url_extraction", "single_product", "multi_platform"),
        *("default", "research", "plan-generation", "material-processing"),
    }


@pytest.mark.parametrize("name", [*SHOPS, *EXTRACT, "default"])
def test_shops_the_extract_group_and_default_run_one_at_a_time_overall(name: str) -> None:
    assert Platforms()[name].overall == 1


@pytest.mark.parametrize("name", ["research", "plan-generation", "material-processing"])
def test_the_others_run_ten_per_process(name: str) -> None:
    policy = Platforms()[name]
    assert (policy.overall, policy.per_process) == (0, 10)


def test_one_consumer_serves_the_whole_extract_lane() -> None:
    platforms = Platforms()
    assert platforms.serving("extract") == EXTRACT
    assert platforms.serving("url_extraction") == ("url_extraction",)
    assert platforms.serving("kurly") == ("kurly",)
    assert platforms.lanes()["extract"] == EXTRACT
    assert sorted(name for lane in platforms.lanes().values() for name in lane) == sorted(platforms)


def test_declared_platforms_come_on_top_and_known_ones_keep_their_policy() -> None:
    platforms = Platforms().declare(["coupang", "kurly"])
    assert platforms["coupang"] == MANY
    assert platforms["kurly"].overall == 1
    assert "coupang" not in Platforms()


def test_a_configuration_changes_what_it_names_and_nothing_else() -> None:
    platforms = Platforms().configure({"kurly": {"max_crashes": 5}, "naver": {"overall": 2}})
    assert platforms["kurly"] == Policy(overall=1, per_process=1, max_crashes=5)
    assert platforms["naver"] == Policy(overall=2)
    assert platforms["ably"] == Platforms()["ably"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("kurly", {"overal": 1}),
        ("kurly", {"overall": "one"}),
        ("kurly", {"overall": -1}),
        ("kurly", {"per_process": 0}),
        ("kurly", {"max_crashes": 0}),
        ("../x", {}),
        ("kurly", 3),
    ],
)
def test_a_wrong_configuration_names_its_platform(name: str, fields: object) -> None:
    with pytest.raises(BadConfiguration, match=name):
        Platforms().configure({name: fields})


def test_a_platform_that_cannot_be_a_name_is_not_declared() -> None:
    with pytest.raises(BadConfiguration, match="A}b"):
        Platforms().declare(["A}b"])


def test_an_undeclared_platform_is_refused_naming_those_that_are() -> None:
    assert Platforms().known("kurly") == "kurly"
    with pytest.raises(WrongField, match=r"oliveyoung.*material-processing") as refusal:
        Platforms().known("amazon")
    assert refusal.value.field == "platform"
