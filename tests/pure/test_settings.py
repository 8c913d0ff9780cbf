"""settings: read once from the environment; a wrong one names itself."""

from pathlib import Path

import pytest

from tailrace.producers.settings import NEW_NAMES, StreamsSettings
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import Environment


def read(**variables: str) -> StreamsSettings:
    return StreamsSettings.read(Environment(variables))


def test_without_settings_nobody_said_where_the_store_is() -> None:
    assert read().url is None


@pytest.mark.parametrize("url", ["redis://h:6379/0", "rediss://:secret@h", "unix:///run/redis.sock"])
def test_the_stores_url_is_taken_as_it_is(url: str) -> None:
    assert read(REDIS_URL=url, REDIS_HOST="other").url == url


def test_host_and_port_make_a_url() -> None:
    assert read(REDIS_HOST="store").url == "redis://store:6379"
    assert read(REDIS_HOST="store", REDIS_PORT="7000").url == "redis://store:7000"


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "1.5", "²"])
def test_a_wrong_port_names_itself(port: str) -> None:
    with pytest.raises(BadConfiguration, match="REDIS_PORT"):
        read(REDIS_HOST="store", REDIS_PORT=port)


@pytest.mark.parametrize("host", ["h/zz", "u:hidden@h", "h:6379", "a b", "[::1]", "redis://hidden"])
def test_a_host_that_is_none_names_itself_and_is_not_repeated(host: str) -> None:
    with pytest.raises(BadConfiguration, match="REDIS_HOST is not a host name") as error:
        read(REDIS_HOST=host)
    assert "hidden" not in str(error.value)
    assert read(REDIS_HOST="::1").url == "redis://[::1]:6379"


def test_a_wrong_scheme_is_named_without_the_password() -> None:
    with pytest.raises(BadConfiguration, match="REDIS_URL begins with http://") as error:
        read(REDIS_URL="http://:hidden@h")
    assert "hidden" not in str(error.value)


def test_an_address_without_a_scheme_is_not_repeated() -> None:
    with pytest.raises(BadConfiguration, match="REDIS_URL has no scheme") as error:
        read(REDIS_URL="default:hidden@h:6379")
    assert "hidden" not in str(error.value)


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://from-file\n")
    assert read(REDIS_URL_FILE=str(tmp_path / "url")).url == "redis://from-file"
    with pytest.raises(BadConfiguration, match="REDIS_URL_FILE: cannot read"):
        read(REDIS_URL_FILE=str(tmp_path / "missing"))
    (tmp_path / "url").write_bytes(b"hidden\xff")
    with pytest.raises(BadConfiguration, match=r"REDIS_URL_FILE: .* is not UTF-8 text$"):
        read(REDIS_URL_FILE=str(tmp_path / "url"))


@pytest.mark.parametrize("nothing", ["", " ", "\n\n", "\ufeff", "\ufeff \r\n"])
def test_an_empty_secret_is_an_error_and_never_none(tmp_path: Path, nothing: str) -> None:
    file = tmp_path / "secret"
    file.write_text(nothing)
    with pytest.raises(BadConfiguration, match=r"^REDIS_URL_FILE: .*secret is empty"):
        read(REDIS_URL_FILE=str(file))
    with pytest.raises(BadConfiguration, match=r"^REDIS_URL is empty; set it to a value, or unset it"):
        read(REDIS_URL=nothing)
    with pytest.raises(BadConfiguration, match=r"^REDIS_URL_FILE is empty; set it to the path of a file, or unset it"):
        read(REDIS_URL_FILE=nothing)


def test_the_mark_that_some_editors_put_first_is_no_part_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("\ufeffredis://from-file\n")
    assert read(REDIS_URL_FILE=str(tmp_path / "url")).url == "redis://from-file"


def test_platforms_are_added_by_name() -> None:
    assert {"coupang", "naver", "kurly"} <= set(read(TAILRACE_PLATFORMS=" coupang, ,naver,").platforms)
    for name in ("Coupang", "a b"):
        with pytest.raises(BadConfiguration, match=f"^TAILRACE_PLATFORMS: platform '{name}': must have 1 to 32"):
            read(TAILRACE_PLATFORMS=f"naver,{name}")


def test_platforms_and_policies_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text("[platforms.kurly]\noverall = 2\n[platforms.naver]\nper_process = 3\n")
    platforms = read(TAILRACE_CONFIG=str(file)).platforms
    assert (platforms["kurly"].max_running, platforms["naver"].max_running_per_process) == (2, 3)
    file.write_text("[platforms\n")
    with pytest.raises(BadConfiguration, match="is not TOML"):
        read(TAILRACE_CONFIG=str(file))
    with pytest.raises(BadConfiguration, match="TAILRACE_CONFIG: cannot read"):
        read(TAILRACE_CONFIG=str(tmp_path / "missing"))


@pytest.mark.parametrize(("old", "new"), NEW_NAMES.items())
def test_an_old_name_of_a_policy_is_read_and_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, old: str, new: str
) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text(f"[platforms.kurly]\n{old} = 7\n")
    assert getattr(read(TAILRACE_CONFIG=str(file)).platforms["kurly"], new) == 7
    assert caplog.messages == [f"platform kurly: {old} is the old name of {new}; rename it in TAILRACE_CONFIG"]
    file.write_text(f"[platforms.kurly]\n{old} = 7\n{new} = 8\n")
    with pytest.raises(BadConfiguration, match=f"platform kurly: {old} is the old name of {new}; remove {old}"):
        read(TAILRACE_CONFIG=str(file))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[platforms.naver]\nattempts = 0\n", "platform naver: attempts: must be from 1 to"),
        ("[platforms.naver]\nattempts = 'x'\n", "platform naver: attempts: must be a whole number"),
        ("[platforms.naver]\natempts = 1\n", "platform naver: atempts: is not a known field"),
        ("[platforms.'X y']\n", "platform 'X y': must have 1 to 32"),
        ("platforms = 3\n", r"platforms: write each as a table \[platforms.NAME\]"),
        ("platforms.naver = 3\n", r"platforms: write each as a table \[platforms.NAME\]"),
        ("schedules = []\n", r"schedules: write each as a table \[schedules.NAME\]"),
        (
            "[schedules.nightly]\nplatform = 'naver'\nkind = 'x'\nevery_seconds = 1\n",
            "schedule nightly: platform: 'naver' is not declared",
        ),
    ],
)
def test_what_is_wrong_in_the_file_names_the_setting_and_the_file(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text(text)
    with pytest.raises(BadConfiguration, match=f"^TAILRACE_CONFIG: {file}: {sentence}"):
        read(TAILRACE_CONFIG=str(file))


def test_the_built_in_platforms_and_kinds_can_be_left_out(tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text("builtins = false\n[platforms.mail]\n")
    settings = read(TAILRACE_CONFIG=str(file), TAILRACE_PLATFORMS="naver")
    assert list(settings.platforms) == ["naver", "mail"]
    assert settings.kinds.built_in == []
    file.write_text("builtins = true\n[platforms.mail]\n")
    settings = read(TAILRACE_CONFIG=str(file))
    assert {"kurly", "mail"} <= settings.platforms.keys()
    assert "drill" in settings.kinds.built_in
    for text, sentence in [
        ("builtins = 'no'\n", "builtins is 'no'; it must be true or false"),
        ("builtins = false\n", r"builtins is false and there is no platform; add a table \[platforms.NAME\]"),
    ]:
        file.write_text(text)
        with pytest.raises(BadConfiguration, match=f"^TAILRACE_CONFIG: {file}: {sentence}"):
            read(TAILRACE_CONFIG=str(file))


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_bytes(b"# \xff\n")
    with pytest.raises(BadConfiguration, match=f"^TAILRACE_CONFIG: {file} is not TOML"):
        read(TAILRACE_CONFIG=str(file))


def test_words_are_trimmed_and_empty_ones_dropped() -> None:
    assert Environment({"W": " a , ,b,"}).words("W") == ("a", "b")
    assert Environment({"W": " "}).words("W") == Environment({}).words("W") == ()


def test_numbers_have_defaults_and_limits() -> None:
    env = Environment({"N": "2.5", "EMPTY": " "})
    assert env.number("N", 1.0) == 2.5
    assert env.number("EMPTY", 1.0) == 1.0
    for text in ("x", "-1", "nan", "inf"):
        with pytest.raises(BadConfiguration, match="N is"):
            Environment({"N": text}).number("N", 1.0)


def test_a_choice_is_one_of_its_words() -> None:
    assert Environment({"C": "JSON"}).choice("C", "auto", ("auto", "json")) == "json"
    with pytest.raises(BadConfiguration, match="C is 'xml'; it must be one of auto, json"):
        Environment({"C": "xml"}).choice("C", "auto", ("auto", "json"))


def test_a_table_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tailrace.toml"
    path.write_text("[platform.x]\nrate = 5\n")
    with pytest.raises(BadConfiguration, match="'platform'; known are platforms, schedules"):
        StreamsSettings.read(Environment({"TAILRACE_CONFIG": str(path)}))


def test_a_namespace_comes_from_the_environment_or_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text('namespace = "shop-staging"\n')
    assert read().namespace == ""
    assert read(TAILRACE_CONFIG=str(file)).namespace == "shop-staging"
    assert read(TAILRACE_CONFIG=str(file), TAILRACE_NAMESPACE="other").namespace == "other"
    with pytest.raises(BadConfiguration, match=r"^TAILRACE_NAMESPACE: must have 1 to 32 .*; it is 'A B'"):
        read(TAILRACE_NAMESPACE="A B")
    file.write_text("namespace = 3\n")
    with pytest.raises(BadConfiguration, match=r"^TAILRACE_CONFIG: .*tailrace.toml: namespace: must be text, not 3"):
        read(TAILRACE_CONFIG=str(file))
