"""The page and the streams of a gateway that is mounted in another application, in a real browser."""

import re
from importlib.util import find_spec

import pytest
from playwright.async_api import expect

from tests.gateway.gateways import GatewayProcess
from tests.gateway.mounting import COMMAND, PREFIX
from tests.page.visitors import PATIENCE_MS, Visitor
from tests.support.deployment import Deployment

FOLLOW = """async (stream) => {
    const statuses = [];
    await new Promise((done, fail) => {
        const source = new EventSource(stream);
        source.onmessage = ({ data }) => statuses.push(JSON.parse(data).status);
        source.addEventListener("end", () => { source.close(); done(); });
        source.onerror = fail;
    });
    return statuses;
}"""


@pytest.mark.parametrize("kind", ["lazy", "fastapi"])
async def test_the_page_and_an_event_source_work_inside_another_application(
    kind: str, standing: Deployment, visitor: Visitor
) -> None:
    if kind == "fastapi" and find_spec("fastapi") is None:
        pytest.skip("FastAPI is not installed")
    with GatewayProcess(standing.url, command=(*COMMAND, kind)) as process:
        await visitor.open(f"{process.url}{PREFIX}/?platform=research&state=completed")
        await visitor.page.click("#submit-open")
        await visitor.page.fill("#submit-form [name=id]", f"mounted-{kind}")
        await visitor.page.select_option("#submit-form [name=platform]", "research")
        await visitor.page.fill("#submit-form [name=kind]", "drill")
        await visitor.page.fill("#submit-form [name=args]", '{"steps": 2, "seconds": 0.1}')
        await visitor.page.press("#submit-form [name=id]", "Enter")
        await expect(visitor.page).to_have_url(re.compile(f"{PREFIX}/jobs/research.mounted-{kind}$"))
        await visitor.state("completed")
        statuses = await visitor.page.evaluate(FOLLOW, f"{PREFIX}/research/stream/research.mounted-{kind}")
        assert statuses == ["queued", "started", "progress", "progress", "completed"]
        await visitor.page.keyboard.press("Escape")
        await expect(visitor.page).to_have_url(f"{process.url}{PREFIX}/", timeout=PATIENCE_MS)
        await visitor.sees("#link-text", "live")
        assert all(url.startswith(f"{process.url}{PREFIX}/") for url in visitor.requests)
        await visitor.leave()
