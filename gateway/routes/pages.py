"""The page: files that never change while we run, served with headers that keep other sites out."""

from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tailrace.gateway.backend import Backend
from tailrace.gateway.etags import Forms, forms_of, is_named, send
from tailrace.gateway.problems import Code
from tailrace.gateway.replies import MOUNTED_AT, url_path
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
    "Cache-Control": "no-cache",  # the browser asks each time: a 304 costs little, an old script breaks the page
}

WELCOME: Final = """Tailrace serves here. Open this address in a browser, or try

%(ask)s%(start)s    curl -s%(key)s %(url)sapi/v2/jobs/running
"""
START: Final = """\
    curl -s -X POST%(key)s -H 'Content-Type: application/json' -d '{"query": "tides"}' %(url)sresearch/start
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


@route(
    "GET",
    "/",
    PUBLIC,
    {200: Answer("The page, or the words.", media=(HTML, TEXT)), 304: UNCHANGED},
    asks=(IF_NONE_MATCH,),
    store=False,
)
async def welcome(backend: Backend, request: Request) -> Response:
    """The page for a browser, plain text for other clients."""
    if is_named("text/html", request.headers.get("accept", "")):  # `*/*`, as curl says, does not name it
        return send_file(request, "index.html", {"Vary": "Accept, Accept-Encoding"})
    # It repeats the host that the client named, so no cache may serve it to another client.
    headers = {"Vary": "Accept, Accept-Encoding", "Cache-Control": "no-store"}
    words = LOCKED if backend.settings.keys else UNLOCKED
    told = {"url": request.base_url.replace(path=url_path("/")), **words}
    start = START % told if backend.settings.streams.builtins else ""
    return PlainTextResponse(WELCOME % {**told, "start": start}, headers=headers)


@route("GET", "/jobs/{job_id}", PUBLIC, {200: PAGE, 304: UNCHANGED}, asks=(IF_NONE_MATCH,), store=False)
async def job_page(_: Backend, request: Request, __: str) -> Response:
    """The page of one job: the same bytes for every id."""
    # Whether there is such a job or not: the page asks for it and says so.
    return send_file(request, "index.html")


@route("GET", "/docs", PUBLIC, {200: PAGE, 304: UNCHANGED}, asks=(IF_NONE_MATCH,), store=False)
async def docs_page(_: Backend, request: Request) -> Response:
    """Every route of /openapi.json, for people."""
    return send_file(request, "docs.html")


@file_route("/page/{name}", asks=(FILE_NAME, IF_NONE_MATCH))
async def page_file(_: Backend, request: Request, name: str) -> Response:
    """One file of the page."""
    return send_file(request, name)


@file_route("/page/{folder}/{name}", asks=(FOLDER_NAME, FILE_NAME, IF_NONE_MATCH))
async def page_file_in_folder(_: Backend, request: Request, folder: str, name: str) -> Response:
    """One file of a folder of the page."""
    return send_file(request, f"{folder}/{name}")


@lru_cache(maxsize=16)
def files(mounted_at: str) -> dict[str, Forms]:
    """The files of the page. What is not one of them is not found, so no path leads out of the folder."""
    paths = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in MEDIA_TYPES]
    return {path.relative_to(FOLDER).as_posix(): read(path, mounted_at) for path in paths}


def send_file(request: Request, name: str, more: dict[str, str] | None = None) -> Response:
    forms = files(MOUNTED_AT.get()).get(name)
    if forms is None:
        raise HTTPException(404)
    return send(request, forms, {**HEADERS, **(more or {})})


def read(path: Path, mounted_at: str) -> Forms:
    """A file of the page, with commands as they are typed in this installation.

    Only HTML has absolute paths: scripts find the others from where they lie themselves.
    """
    body = path.read_bytes().replace(b"python3 -m ops", PROGRAM.encode())
    if path.suffix == ".html":
        body = body.replace(b'"/', b'"%b/' % mounted_at.encode())
    return forms_of(body, MEDIA_TYPES[path.suffix])
