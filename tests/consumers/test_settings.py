"""What a consumer is told."""

import os
from base64 import urlsafe_b64decode
from pathlib import Path
from unittest.mock import patch

import pytest
import redis

from tailrace.consumers.__main__ import main
from tailrace.consumers.settings import ConsumerSettings
from tailrace.producers.platforms import BUILT_IN
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment
from tests.ops.commands import environment


def read(**variables: str) -> ConsumerSettings:
    return ConsumerSettings.read(BUILT_IN, environment=Environment(variables))


def test_platforms_are_trimmed_and_empty_parts_dropped() -> None:
    assert read(WORKER_PLATFORMS=" ably, ,kurly ,,").platforms == ("ably", "kurly")


def test_unset_means_all() -> None:
    assert read().platforms == tuple(BUILT_IN)
    assert read(WORKER_PLATFORMS=" ").platforms == tuple(BUILT_IN)


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


def test_a_consumer_of_several_platforms_is_named_after_none_of_them() -> None:
    assert read(WORKER_PLATFORMS="ably").owner.startswith("ably.")
    for several in ("ably,kurly", "extract", ""):
        settings = read(WORKER_PLATFORMS=several)
        assert not any(platform in settings.owner.split(".") for platform in settings.platforms)
    assert read(WORKER_PLATFORMS="ably,kurly", SERVICE_NAME="shops").owner.startswith("shops.")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKER_PLATFORMS", "ably,nowhere"),
        ("TAILRACE_BEAT_SECONDS", "soon"),
        ("TAILRACE_BEAT_SECONDS", "-1"),
        ("TAILRACE_DEADLINE_SECONDS", "5"),
        ("TAILRACE_DEADLINE_SECONDS", "nan"),
        ("TAILRACE_REAP_SECONDS", "3.5"),
        ("TAILRACE_GRACE_SECONDS", "inf"),
        ("TAILRACE_CONCURRENCY", "0"),
        ("TAILRACE_CONCURRENCY", "1.5"),
    ],
)
def test_a_wrong_setting_names_itself(name: str, value: str) -> None:
    with pytest.raises(BadConfiguration, match=name):
        read(**{name: value})


def refused(capsys: pytest.CaptureFixture[str], *words: str, **variables: str) -> str:
    """What a consumer says that must not start."""
    told = environment(**{"REDIS_URL": "redis://127.0.0.1:1", **variables})
    with (
        patch.dict(os.environ, told, clear=True),
        patch("tailrace.consumers.__main__.configure_logs"),
    ):  # logs are of us all
        assert main([*words]) == 78
    (said,) = capsys.readouterr().err.splitlines()
    return str(said)


def test_an_argument_is_named_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "nope", "kurly", WORKER_PLATFORMS="ably")
    assert said.startswith("the argument PLATFORM names nope; declared are oliveyoung,")
    assert refused(capsys, WORKER_PLATFORMS="nope").startswith("WORKER_PLATFORMS names nope; declared are")


@pytest.mark.parametrize("where", ["./none.py", "no.such.module", "json"])
def test_handlers_are_named_by_what_they_were_given_with(capsys: pytest.CaptureFixture[str], where: str) -> None:
    assert refused(capsys, "--handlers", where, TAILRACE_HANDLERS="other").startswith("--handlers: ")
    assert refused(capsys, TAILRACE_HANDLERS=where).startswith("TAILRACE_HANDLERS: ")


def test_without_built_in_handlers_there_must_be_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "tailrace.toml"
    config.write_text("builtins = false\n[platforms.mail]\n")
    said = refused(capsys, TAILRACE_CONFIG=str(config))
    assert said.endswith("name yours with TAILRACE_HANDLERS=./handlers.py or --handlers")


def test_handlers_that_contradict_each_other_name_where_they_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "handlers_with_two_of_a_kind.py"
    twice = "@handles('own')\nasync def own(attempt): ...\n" * 2
    file.write_text(f"from tailrace.consumers import Handlers\nhandles = Handlers()\n{twice}")
    assert refused(capsys, "--handlers", str(file)).startswith("--handlers: two handlers for the kind 'own'")


def test_a_wrong_model_stops_the_consumer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert refused(capsys, "research", LLM_SERVER_URL="foo").startswith("LLM_SERVER_URL is not the address of a server")
    said = refused(capsys, "research", LLM_SERVER_URL_FILE=str(tmp_path / "none"))
    assert said.startswith("LLM_SERVER_URL_FILE: cannot read")


def test_a_database_that_is_no_number_stops_the_consumer(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "research", REDIS_URL="redis://127.0.0.1:1/zz")
    assert said.startswith("REDIS_URL names a database that is not a whole number")


@pytest.mark.parametrize("number", ["99", "99999999999999999999"])
def test_a_database_that_the_store_does_not_have_stops_the_consumer(
    capsys: pytest.CaptureFixture[str], store_url: str, number: str
) -> None:
    said = refused(capsys, "research", REDIS_URL=f"{store_url}?db={number}")
    assert said.startswith(f"REDIS_URL names database {number}, which this store does not have: ")
    assert store_url not in said


def test_a_user_that_may_not_choose_a_database_or_has_another_password_is_told_so(
    capsys: pytest.CaptureFixture[str], valkey_url: str
) -> None:
    said = []
    with redis.Redis.from_url(valkey_url) as client:
        client.execute_command("ACL", "SETUSER", "narrow", "on", ">hidden", "~*", "+@all", "-select")
        try:
            for password in ("hidden", "hidden-as-well"):
                url = valkey_url.replace("://", f"://narrow:{password}@") + "?db=1"
                said.append(refused(capsys, "research", REDIS_URL=url))
        finally:
            client.execute_command("ACL", "DELUSER", "narrow")
    assert all(line.startswith("the store refuses the credentials of REDIS_URL: ") for line in said)
    assert "hidden" not in "".join(said)


def test_looks_that_are_too_rare_for_the_deadline_are_refused_with_the_bound() -> None:
    with pytest.raises(
        BadConfiguration, match=r"TAILRACE_REAP_SECONDS is 6; it must be at most 4, a third of .* \(12\)"
    ):
        read(TAILRACE_REAP_SECONDS="6", TAILRACE_DEADLINE_SECONDS="12")
    assert read(TAILRACE_REAP_SECONDS="4", TAILRACE_DEADLINE_SECONDS="12").reap_seconds == 4
    quick = read(TAILRACE_BEAT_SECONDS="0.2", TAILRACE_DEADLINE_SECONDS="0.6")
    assert quick.reap_seconds == pytest.approx(0.2), "who says nothing of it is not refused"


def test_the_name_of_a_process_carries_64_random_bits() -> None:
    assert len(urlsafe_b64decode(read().owner.rsplit(".", 1)[1] + "=")) == 8
