"""Commands that find the store of a running `up` use its settings about platforms."""

import json
from pathlib import Path

import pytest

from tailrace.ops.up.own_store import OwnStore
from tailrace.ops.up.up import settings_for_others
from tests.ops.commands import Here, tailrace


def test_up_leaves_what_others_need_to_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAILRACE_CONFIG", "tailrace.toml")
    monkeypatch.setenv("TAILRACE_PLATFORMS", "naver")
    monkeypatch.setenv("TAILRACE_API_KEYS", "0123456789abcdef")
    whole = {"TAILRACE_CONFIG": str(tmp_path / "tailrace.toml"), "TAILRACE_PLATFORMS": "naver"}
    assert settings_for_others() == whole
    monkeypatch.setenv("TAILRACE_CONFIG", "")
    monkeypatch.delenv("TAILRACE_PLATFORMS")
    assert settings_for_others() == {}


def test_commands_in_another_terminal_know_the_same_platforms(tmp_path: Path, here: Here) -> None:
    config, other = tmp_path / "tailrace.toml", tmp_path / "other.toml"
    config.write_text("[platforms.coupang]\noverall = 3\n")
    other.write_text("[platforms.elsewhere]\noverall = 3\n")
    settings = {"TAILRACE_CONFIG": str(config), "TAILRACE_PLATFORMS": "naver"}
    with OwnStore(tmp_path / "data", settings=settings) as store:
        data = ["--data", str(store.folder)]
        assert tailrace("submit", "coupang", "drill", *data).returncode == 0
        listed = json.loads(here("platforms", "--json", *data)[1])
        assert {"coupang", "naver"} <= {each["platform"] for each in listed}
        for words in (["pause", "coupang"], ["dead", "naver"]):
            assert here(*words, *data)[0] == 0, words
        code, _, err = here("pause", "coupang", *data, TAILRACE_CONFIG=str(other))
        assert code == 2, "who says something else is heard"
        assert "elsewhere" in err
        code, _, _ = here("pause", "coupang", REDIS_URL=store.url)
        assert code == 2, "who names a store says what is in it"
        (store.folder / "store.json").write_text(json.dumps({"url": store.url}))
        assert here("running", *data)[0] == 0, "an earlier version left less"


def test_a_database_that_is_none_is_a_wrong_setting(valkey_url: str, here: Here) -> None:
    for database, sentence in (
        ("zz", "names a database that is not a whole number"),
        ("99", "names database 99, which"),
    ):
        for words in (["doctor"], ["running"], ["submit", "research", "drill"], ["bench", "--only", "raw"]):
            code, out, err = here(*words, REDIS_URL=f"{valkey_url}?db={database}")
            assert (code, out) == (78, ""), words
            assert err.startswith("tailrace: REDIS_URL")
            assert sentence in err
