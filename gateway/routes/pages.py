"""The page: files that never change while we run, served with the headers that keep it shut to everybody else."""

import gzip
import hashlib
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tailrace.gateway.problems import Code
from tailrace.gateway.route_table import HTML, IF_NONE_MATCH, PUBLIC, TEXT, UNCHANGED, Answer, Parameter, group
from tailrace.streams.process.launch import PROGRAM

route = group("page")

FOLDER: Final = Path(__file__).parents[1] / "page"

MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept by the browser, and asked for anew: a 304 costs nothing, an old script does
}

WELCOME: Final = """Tailrace serves here. Open this address in a browser, or try

%(ask)s    curl -s -X POST%(key)s -H 'Content-Type: application/json' -d '{"query": "tides"}' %(url)sresearch/start
    curl -s%(key)s %(url)sapi/v2/jobs/running
"""
LOCKED: Final = {
    "ask": "    read -rs API_KEY     # one of your keys; it is not shown\n",
    "key": ' -H "Authorization: Bearer $API_KEY"',
}
UNLOCKED: Final = dict.fromkeys(LOCKED, "")

FILE_NAME: Final = Parameter("PageFile", "path", "name", "A file of the page.", required=True, example="style.css")
FOLDER_NAME: Final = Parameter("PageFolder", "path", "folder", "A folder of the page.", required=True, example="job")
PAGE: Final = Answer("The page.", media=(HTML,), headers=("ETag",))
FILE: Final = Answer("The file.", media=("text/css", "text/javascript", "image/svg+xml", HTML), headers=("ETag",))

file_route = partial(
    route, "GET", scope=PUBLIC, answers={200: FILE, 304: UNCHANGED}, refuses=(Code.NOT_FOUND,), store=False
)


class File(Struct, frozen=True):
    """One file of the page, as it is sent."""

    body: bytes
    headers: dict[str, str]

    @property
    def etag(self) -> str:
        return self.headers["ETag"]


class Forms(Struct, frozen=True):
    """The same file for those who can unpack it and for those who cannot."""

    plain: File
    packed: File


class Pages:
    """The routes of the page. What is not one of its files is not found, so no path leads out of the folder."""

    def __init__(self, folder: Path = FOLDER, *, locked: bool = False) -> None:
        """`locked`: the gateway asks for keys."""
        self._words = LOCKED if locked else UNLOCKED
        paths = [path for path in sorted(folder.rglob("*")) if path.suffix in MEDIA_TYPES]
        self._files = {path.relative_to(folder).as_posix(): read(path) for path in paths}

    @route(
        "GET",
        "/",
        PUBLIC,
        {200: Answer("The page, or the words.", media=(HTML, TEXT)), 304: UNCHANGED},
        asks=(IF_NONE_MATCH,),
        store=False,
    )
    async def welcome(self, request: Request) -> Response:
        """The page for a browser, a few words for everything else that asks."""
        if wants_html(request):
            return self._send(request, "index.html", {"Vary": "Accept, Accept-Encoding"})
        # It repeats the name it was asked by: nobody is to keep that for others.
        headers = {"Vary": "Accept, Accept-Encoding", "Cache-Control": "no-store"}
        return PlainTextResponse(WELCOME % {"url": request.base_url, **self._words}, headers=headers)

    @route("GET", "/jobs/{job_id}", PUBLIC, {200: PAGE, 304: UNCHANGED}, asks=(IF_NONE_MATCH,), store=False)
    async def job_page(self, request: Request, _: str) -> Response:
        """The page of one job: the same bytes for every id."""
        # Whether there is such a job or not: the page asks for it and says so.
        return self._send(request, "index.html")

    @file_route("/page/{name}", asks=(FILE_NAME, IF_NONE_MATCH))
    async def page_file(self, request: Request, name: str) -> Response:
        """One file of the page."""
        return self._send(request, name)

    @file_route("/page/{folder}/{name}", asks=(FOLDER_NAME, FILE_NAME, IF_NONE_MATCH))
    async def page_file_in_folder(self, request: Request, folder: str, name: str) -> Response:
        """One file of a folder of the page."""
        return self._send(request, f"{folder}/{name}")

    def _send(self, request: Request, name: str, more: dict[str, str] | None = None) -> Response:
        forms = self._files.get(name)
        if forms is None:
            raise HTTPException(404)
        return send(request, forms, {**HEADERS, **(more or {})})


def send(request: Request, forms: Forms, more: dict[str, str]) -> Response:
    """The form that the client can read, unless it has it already."""
    file = forms.packed if is_named("gzip", request.headers.get("accept-encoding", "")) else forms.plain
    headers = {**file.headers, **more}
    if file.etag in known_tags(request):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers)


def read(path: Path) -> Forms:
    """A file of the page; the commands it names are those that a person types here."""
    body = path.read_bytes().replace(b"python3 -m ops", PROGRAM.encode())
    return forms_of(body, MEDIA_TYPES[path.suffix])


def forms_of(body: bytes, media_type: str) -> Forms:
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    usual = {"Content-Type": media_type, "Vary": "Accept-Encoding"}
    return Forms(
        File(body, {**usual, "ETag": f'"{tag}"'}),
        File(gzip.compress(body, mtime=0), {**usual, "ETag": f'"{tag}z"', "Content-Encoding": "gzip"}),
    )


def wants_html(request: Request) -> bool:
    """Whether HTML is named among what the client takes; `*/*`, as curl says, does not name it."""
    return is_named("text/html", request.headers.get("accept", ""))


def is_named(word: str, header: str) -> bool:
    """Whether a header that lists what a client takes has this word, and not as something it does not take."""
    offers = [offer.partition(";") for offer in header.split(",")]
    return any(kind.strip().lower() == word and not refused(rest) for kind, _, rest in offers)


def refused(parameters: str) -> bool:
    return any(part.strip().lower() in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for part in parameters.split(";"))


def known_tags(request: Request) -> set[str]:
    """What the client has already; a proxy may have marked a tag as weak."""
    tags = request.headers.get("if-none-match", "").split(",")
    return {tag.strip().removeprefix("W/") for tag in tags}
