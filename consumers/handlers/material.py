"""process-material: read a document, cut it into pieces, give each a vector, and store them as one JSON file.

A document is a file in the folder TAILRACE_MATERIALS, or an https address of a host in TAILRACE_MATERIAL_HOSTS: never
any address a client names. What was made is stored beside the documents, in `processed/<materialId>.json`.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

from consumers.attempt import Attempt
from consumers.outcomes import GiveUp
from consumers.registry import Handlers
from producers.kinds import ProcessMaterial

handles = Handlers()

LARGEST = 10 * 1024 * 1024
PIECE = 1000  # characters
DIMENSIONS = 64


@handles("process-material")
async def process_material(attempt: Attempt[ProcessMaterial]) -> dict[str, Any]:
    asked = attempt.args
    folder = materials_folder()
    text = await anyio.to_thread.run_sync(read_document, folder, asked.document)
    await attempt.progress("downloaded", data={"characters": len(text)})
    pieces = cut(text)
    await attempt.progress("parsed", data={"pieces": len(pieces)})
    stored = [{"text": piece, "vector": vector_of(piece)} for piece in pieces]
    await attempt.progress("embedded")
    path = folder / "processed" / f"{hashlib.sha256(asked.materialId.encode()).hexdigest()[:32]}.json"
    await anyio.to_thread.run_sync(store, path, {"materialId": asked.materialId, "pieces": stored})
    await attempt.progress("stored", data={"file": path.name})
    return {"materialId": asked.materialId, "status": "ready", "pieces": len(pieces)}


def materials_folder() -> Path:
    folder = os.environ.get("TAILRACE_MATERIALS")
    if not folder:
        raise GiveUp("no folder for materials is configured; set TAILRACE_MATERIALS")
    return Path(folder).resolve()


def read_document(folder: Path, document: str) -> str:
    if document.startswith("https://"):
        return fetch(document)
    path = (folder / document).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise GiveUp(f"there is no document {document!r} in the folder of materials")
    with path.open("rb") as file:
        return bounded(file.read(LARGEST + 1))


def fetch(address: str) -> str:
    from urllib.request import HTTPRedirectHandler, build_opener

    hosts = {host.strip() for host in os.environ.get("TAILRACE_MATERIAL_HOSTS", "").split(",") if host.strip()}
    if urlsplit(address).hostname not in hosts:
        raise GiveUp("this host is not one that materials may come from; see TAILRACE_MATERIAL_HOSTS")

    class Stay(HTTPRedirectHandler):
        """A redirect could lead anywhere."""

        def redirect_request(self, *_: Any) -> None:
            raise GiveUp("the document has moved; materials are not fetched from where an address points on to")

    with build_opener(Stay).open(address, timeout=60) as reply:
        return bounded(reply.read(LARGEST + 1))


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
    """Whole or not at all, so that a second attempt finds nothing half-made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(msgspec.json.encode(content))
    part.replace(path)
