"""process-material: read a document, cut it into pieces, give each a vector, and store them as one JSON file.

A document is a file in the folder TAILRACE_MATERIALS, or an https address of a host in TAILRACE_MATERIAL_HOSTS: never
any address a client names. What was made is stored beside the documents, in `processed/`. Where no folder is configured
a short sample is read, so that the kind can be tried.
"""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

from tailrace.consumers.attempt import Attempt
from tailrace.consumers.outcomes import GiveUp
from tailrace.consumers.registry import Handlers
from tailrace.producers.kinds import ProcessMaterial

handles = Handlers()

LARGEST = 10 * 1024 * 1024
PIECE = 1000  # characters
DIMENSIONS = 64
OF_UP = "TAILRACE_MATERIALS_OF_UP"  # the folder of `up`, for users who configured none

SAMPLE = """\
The sea rises and falls twice a day. The Moon pulls at the water on the near side of the Earth more than at the Earth
itself, and at the Earth more than at the water on the far side: there are two bulges, and the Earth turns below them.

The Sun pulls as well, with a little less than half the force. When Sun, Moon and Earth stand in one line, at new and at
full Moon, both pull together: high water is higher and low water lower than usual. That is a spring tide. A week later
they stand at a right angle, and the difference is small: a neap tide.

How high the water comes has more to do with the coast than with the sky. A bay that grows narrow gathers the water; one
that is as long as the wave needs to come back just in time for the next makes it swing like a child on a swing. In the
Bay of Fundy the difference is sixteen metres, in the middle of the ocean less than one.

To know the tide of a harbour, people measure it for a year at least and take the measurements apart into waves whose
periods are known from the sky. Added up for the days to come, these are the harbour's table of tides.
"""


@handles("process-material")
async def process_material(attempt: Attempt[ProcessMaterial]) -> dict[str, Any]:
    asked = attempt.args
    folder = materials_folder()
    text, sample = await anyio.to_thread.run_sync(read, folder, asked)
    note = "no folder is configured and no document is named: this is a sample" if sample else None
    await attempt.progress("downloaded", message=note, data={"characters": len(text)})
    pieces = cut(text)
    await attempt.progress("parsed", data={"pieces": len(pieces)})
    made = [{"text": piece, "vector": vector_of(piece)} for piece in pieces]
    await attempt.progress("embedded")
    if folder is None:
        await attempt.progress("not stored", message="no folder for materials is configured; see TAILRACE_MATERIALS")
    else:
        path = folder / "processed" / f"{hashlib.sha256(asked.materialId.encode()).hexdigest()[:32]}.json"
        await anyio.to_thread.run_sync(store, path, {"materialId": asked.materialId, "pieces": made})
        await attempt.progress("stored", data={"file": path.name})
    told = {"pieces": len(pieces), "sample": sample, "stored": folder is not None}
    return {"materialId": asked.materialId, "status": "ready", **told}


def materials_folder() -> Path | None:
    folder = os.environ.get("TAILRACE_MATERIALS") or os.environ.get(OF_UP)
    return Path(folder).resolve() if folder else None


def read(folder: Path | None, asked: ProcessMaterial) -> tuple[str, bool]:
    """The text, and whether it is the sample; with a configured folder a missing document is an error instead."""
    name = asked.document or asked.materialId
    may_be_sample = asked.document is None and not os.environ.get("TAILRACE_MATERIALS")
    if may_be_sample and not (folder and file_in(folder, name)):
        return SAMPLE, True
    if folder is None:
        raise GiveUp("no folder for materials is configured; set TAILRACE_MATERIALS")
    return read_document(folder, name), False


def read_document(folder: Path, document: str) -> str:
    if document.startswith("https://"):
        return fetch(document)
    path = file_in(folder, document)
    if path is None:
        raise GiveUp(f"there is no document {document!r} in the folder of materials; see TAILRACE_MATERIALS")
    with path.open("rb") as file:
        return bounded(file.read(LARGEST + 1))


def file_in(folder: Path, name: str) -> Path | None:
    """The file of this name, if it is really in the folder, wherever links may lead."""
    with suppress(OSError, ValueError):  # names that no file can have
        path = (folder / name).resolve()
        return path if path.is_relative_to(folder) and path.is_file() else None
    return None


def fetch(address: str) -> str:
    from tailrace.consumers.handlers.outside import Moved, request

    hosts = {host.strip() for host in os.environ.get("TAILRACE_MATERIAL_HOSTS", "").split(",") if host.strip()}
    if urlsplit(address).hostname not in hosts:
        raise GiveUp("this host is not in TAILRACE_MATERIAL_HOSTS")
    try:
        with request(address) as reply:
            return bounded(reply.read(LARGEST + 1))
    except Moved:
        raise GiveUp("the document has moved; redirects are not followed") from None


def bounded(raw: bytes) -> str:
    if len(raw) > LARGEST:
        raise GiveUp(f"the document has more than {LARGEST} bytes")
    return raw.decode("utf-8", "replace")


def cut(text: str) -> list[str]:
    """Pieces of about a thousand characters that end where a paragraph or a sentence does, if one does."""
    pieces, rest = [], text.strip()
    while len(rest) > PIECE:
        ends = [match.end() for match in re.finditer(r"\n\n|[.!?] ", rest[:PIECE])]
        end = ends[-1] if ends else PIECE
        pieces.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [*pieces, rest] if rest else pieces


def vector_of(piece: str) -> list[float]:
    """A plain vector of hashed words, of length one: enough to find similar pieces without a model."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", piece.lower()):
        vector[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % DIMENSIONS] += 1.0
    length = sum(value * value for value in vector) ** 0.5 or 1.0
    return [round(value / length, 4) for value in vector]


def store(path: Path, content: dict[str, Any]) -> None:
    """Write the file whole or not at all, so that a second attempt finds no half-written one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(msgspec.json.encode(content))
    part.replace(path)
