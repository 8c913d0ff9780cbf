"""What a consumer is told."""

import pytest

from consumers.settings import ConsumerSettings
from streams.errors import BadConfiguration
from streams.policies import Platforms
from streams.settings import Environment


def read(**variables: str) -> ConsumerSettings:
    return ConsumerSettings.read(Platforms(), environment=Environment(variables))


def test_platforms_are_trimmed_and_empty_parts_dropped() -> None:
    assert read(WORKER_PLATFORMS=" ably, ,kurly ,,").platforms == ("ably", "kurly")


def test_unset_means_all() -> None:
    assert read().platforms == tuple(Platforms())
    assert read(WORKER_PLATFORMS=" ").platforms == tuple(Platforms())


def test_extract_means_its_whole_lane() -> None:
    assert read(WORKER_PLATFORMS="extract").platforms == (
        "extract",
        "url_extraction",
        "single_product",
        "multi_platform",
    )
    assert read(WORKER_PLATFORMS="url_extraction").platforms == ("url_extraction",)


def test_every_process_has_a_name_of_its_own() -> None:
    names = {read(SERVICE_NAME="shop worker: ümläut " * 9).owner for _ in range(50)}
    assert len(names) == 50
    assert all(len(name) <= 64 and name.isascii() and " " not in name for name in names)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKER_PLATFORMS", "ably,nowhere"),
        ("TAILRACE_BEAT_SECONDS", "soon"),
        ("TAILRACE_BEAT_SECONDS", "-1"),
        ("TAILRACE_DEADLINE_SECONDS", "5"),
        ("TAILRACE_DEADLINE_SECONDS", "nan"),
        ("TAILRACE_GRACE_SECONDS", "inf"),
        ("TAILRACE_CONCURRENCY", "0"),
        ("TAILRACE_CONCURRENCY", "1.5"),
    ],
)
def test_a_wrong_setting_names_itself(name: str, value: str) -> None:
    with pytest.raises(BadConfiguration, match=name):
        read(**{name: value})
