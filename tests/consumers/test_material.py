"""process-material: it can be tried with nothing configured, and reads nothing but what it may."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tailrace.consumers.handlers.material import OF_UP, SAMPLE, handles
from tailrace.consumers.testing import HandlerOutcome, run_handler


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAILRACE_MATERIALS", "TAILRACE_MATERIAL_HOSTS", OF_UP):
        monkeypatch.delenv(name, raising=False)


async def process(**args: Any) -> HandlerOutcome:
    return await run_handler(handles, "process-material", args)


def stored(folder: Path) -> list[Any]:
    return [msgspec.json.decode(path.read_bytes()) for path in (folder / "processed").iterdir()]


async def test_without_a_folder_a_sample_is_read_and_nothing_is_stored() -> None:
    outcome = await process(materialId="m1")
    told = {"pieces": 2, "sample": True, "stored": False}
    assert outcome.result == {"materialId": "m1", "status": "ready", **told}
    assert [report.step for report in outcome.progress] == ["downloaded", "parsed", "embedded", "not stored"]
    assert "a sample" in str(outcome.progress[0].message)
    assert "TAILRACE_MATERIALS" in str(outcome.progress[-1].message)


@pytest.mark.parametrize("document", ["tides.txt", "https://docs.example/x", "/etc/hostname"])
async def test_a_document_that_is_named_needs_a_folder(document: str) -> None:
    outcome = await process(materialId="m1", document=document)
    assert outcome.gave_up
    assert outcome.error
    assert "TAILRACE_MATERIALS" in outcome.error.message


async def test_under_up_the_sample_is_stored_and_documents_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "materials"
    monkeypatch.setenv(OF_UP, str(folder))
    outcome = await process(materialId="m1")
    assert (outcome.result["sample"], outcome.result["stored"]) == (True, True)
    (made,) = stored(folder)
    assert " ".join(piece["text"] for piece in made["pieces"]).split() == SAMPLE.split()
    (folder / "m1").write_text("mine")
    for args in ({"materialId": "m1"}, {"materialId": "m1", "document": "m1"}):
        outcome = await process(**args)
        assert (outcome.result["sample"], outcome.result["pieces"]) == (False, 1)
    (made,) = stored(folder)
    assert [piece["text"] for piece in made["pieces"]] == ["mine"]


async def test_under_up_nothing_outside_of_the_folder_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "materials"
    folder.mkdir()
    (tmp_path / "secret").write_text("not for you")
    (folder / "link").symlink_to(tmp_path / "secret")
    monkeypatch.setenv(OF_UP, str(folder))
    for name in ("../secret", str(tmp_path / "secret"), "link", "a\0b", "ö" * 200, "https://docs.example/x"):
        assert (await process(materialId="m1", document=name)).gave_up, name
        assert (await process(materialId=name)).result["sample"], name


async def test_whoever_configured_a_folder_is_given_no_sample_for_a_document_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TAILRACE_MATERIALS", str(tmp_path / "mine"))
    monkeypatch.setenv(OF_UP, str(tmp_path / "theirs"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "m1").write_text("elsewhere")
    outcome = await process(materialId="m1")
    assert outcome.gave_up
    (tmp_path / "mine" / "m1").write_text("here")
    assert (await process(materialId="m1")).result["sample"] is False
