"""The guides are true: their code runs and says what they say."""

import re
import shlex
from ast import literal_eval

import pytest

from tailrace.ops.__main__ import parse
from tailrace.ops.bootstrap import CHECKOUT
from tailrace.ops.commands import COMMANDS
from tailrace.producers.settings import StreamsSettings
from tailrace.streams.process.settings import Environment
from tests.gateway.gateways import GatewayProcess
from tests.guides.code import text_of
from tests.guides.conftest import GUIDES, Project
from tests.page.conftest import browser, visitor  # noqa: F401 # fixtures
from tests.page.visitors import Visitor

DJANGO = """
import json
import django
from django.conf import settings
settings.configure(ROOT_URLCONF="shop.urls", ALLOWED_HOSTS=["*"], SECRET_KEY="a secret of this test")
django.setup()
from django.test import Client
from shop.jobs import jobs
http = Client()
started = http.post("/reports", json.dumps({"customer": "Ada", "id": "django"}), content_type="application/json")
job_id = started.json()["jobId"]
jobs.result(job_id, timeout=30)
print(started.status_code, started.json()["stream"], http.get(f"/reports/{job_id}").json())
print(http.get("/reports/default.none").status_code)
taken = http.post("/reports", json.dumps({"customer": "Bob", "id": "django"}), content_type="application/json")
print(taken.status_code, taken.json()["error"])
jobs.close()
"""

FLASK = """
from web import app, jobs
http = app.test_client()
started = http.post("/reports", json={"customer": "Ada", "id": "flask"})
job_id = started.json["jobId"]
jobs.result(job_id, timeout=30)
print(started.status_code, started.json["stream"], http.get(f"/reports/{job_id}").json)
print(http.get("/reports/default.none").status_code)
taken = http.post("/reports", json={"customer": "Bob", "id": "flask"})
print(taken.status_code, taken.json["error"])
jobs.close()
"""

UVICORN = """
import os, uvicorn, main
main.app.get("/healthz")(lambda: "alive")
uvicorn.run(main.app, port=int(os.environ["PORT"]), log_level="warning")
"""


def test_the_first_job_says_what_its_guide_says(project: Project) -> None:
    guide = text_of("consumers/first-job.md")
    (told,) = re.findall(r"^    \$ python submit.py\n((?:    .*\n)+)", guide, re.MULTILINE)
    said = project.run("submit.py")
    assert [line.rstrip() for line in said.splitlines()] == [line.strip() for line in told.splitlines()]
    assert project.run("submit.py") == said  # the same id: the same job


def test_a_job_is_submitted_as_the_guides_for_other_queues_do(project: Project) -> None:
    assert project.run("video_submit.py") == "{'file': 'a.mp4'}\n{'file': 'b.mp4'}\n"
    assert project.run("shop_submit.py") == "small-a.png\n"
    assert project.run("mail_submit.py") == "3\n"


def test_a_job_is_submitted_by_its_handler_and_shares_a_database(project: Project) -> None:
    assert [project.run("deliver.py"), project.run("deliver.py")] == ["3\n", "6\n"]


def test_the_tests_of_the_guide_pass(project: Project) -> None:
    said = project.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey", "test_orders.py")
    assert "6 passed" in said
    assert "6 passed" in text_of("consumers/testing.md")


def test_the_configuration_of_the_guide_is_accepted(project: Project) -> None:
    settings = StreamsSettings.read(Environment({"TAILRACE_CONFIG": str(project.folder / "tailrace.toml")}))
    assert list(settings.platforms) == ["shipping"]
    assert [schedule.name for schedule in settings.schedules] == ["nightly"]


@pytest.mark.parametrize(("framework", "program"), [("django", DJANGO), ("flask", FLASK)])
def test_a_blocking_web_application_submits_and_shows_a_job(project: Project, framework: str, program: str) -> None:
    pytest.importorskip(framework)
    (project.folder / f"ask_{framework}.py").write_text(program)
    shown, missing, taken = project.run(f"ask_{framework}.py").splitlines()
    status, stream, job = shown.split(maxsplit=2)
    assert (status, stream) == ("202", f"/research/stream/default.{framework}")
    completed = {"status": "completed", "progress": 100.0, "result": {"customer": "Ada", "pages": 3}}
    assert (literal_eval(job), missing) == (completed, "404")
    assert taken == f"409 job default.{framework} was already accepted with another body; choose another id"


async def test_the_page_of_the_fastapi_guide_shows_progress(
    project: Project,
    visitor: Visitor,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("fastapi")
    with GatewayProcess(project.url, {"PYTHONPATH": project.variables["PYTHONPATH"]}, command=("-c", UVICORN)) as host:
        await visitor.open(host.url)
        await visitor.page.click("#start")
        await visitor.sees("#said", "completed")
        assert await visitor.page.eval_on_selector("#bar", "(bar) => bar.value") == 1
        await visitor.open(f"{host.url}/jobs/?platform=default&state=completed")
        await visitor.sees("h1", "default")
        await visitor.leave()


EVERY_GUIDE = sorted(
    path.relative_to(CHECKOUT).as_posix() for path in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("*/*.md")]
)
SHELL_LINE = re.compile(r"^    (?:\$ )?(?:[A-Z_]+=\S+ )*(?:tailrace|python3 -m ops) (.*)$", re.MULTILINE)
IN_A_SENTENCE = re.compile(r"`(?:[A-Z_]+=\S+ )*(?:tailrace|python3 -m ops) ([^`]+)`")


@pytest.mark.parametrize("guide", EVERY_GUIDE)
def test_the_shell_lines_of_a_guide_are_understood(guide: str) -> None:
    """Whole lines are read as the command line reads them; optional words stand in brackets."""
    for line in SHELL_LINE.findall(text_of(guide)):
        words = shlex.split(re.sub(r"[\[\]]", "", line), comments=True)
        assert parse(words).command == words[0], line


@pytest.mark.parametrize("guide", EVERY_GUIDE)
def test_a_sentence_names_commands_and_flags_that_exist(guide: str) -> None:
    for line in IN_A_SENTENCE.findall(text_of(guide)):
        name = line.split()[0]
        if name.isupper() or name.startswith("-") or name == "…":
            continue  # `tailrace COMMAND`, `tailrace --version`
        known = {flag for names, _ in COMMANDS[name].arguments for flag in names}
        assert COMMANDS[name].takes_rest or set(re.findall(r"--[\w-]+", line)) <= known, line


@pytest.mark.parametrize("guide", EVERY_GUIDE)
def test_every_link_leads_somewhere(guide: str) -> None:
    """To a file, and to a heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(guide)):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        path = (CHECKOUT / guide).parent / file if file else CHECKOUT / guide
        assert path.exists(), target
        if heading:
            assert heading in {slug(line) for line in path.read_text(encoding="utf-8").splitlines()}, target


def slug(line: str) -> str:
    return re.sub(r"[^\w -]", "", line.lstrip("#").strip().lower()).replace(" ", "-") if line.startswith("#") else ""


def test_guides_have_short_lines() -> None:
    for guide in ["README.md", *GUIDES, "gateway/README.md", "gateway/progress.md", "ops/deploying.md"]:
        long = [line for line in text_of(guide).splitlines() if len(line) > 120 and not line.startswith("|")]
        assert long == [], guide
