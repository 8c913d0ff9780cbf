"""The page at /docs: every route of /openapi.json, under the policy of our page."""

from playwright.async_api import expect

from tests.page.visitors import Visitor
from tests.support.deployment import Deployment


async def test_docs_show_every_route_and_every_schema_of_the_document(standing: Deployment, visitor: Visitor) -> None:
    url = standing.gateways[0].url
    document = (await standing.http.get(f"{url}/openapi.json")).json()
    operations = [told for methods in document["paths"].values() for told in methods.values()]
    await visitor.open(f"{url}/docs#submitJob")
    await visitor.sees("h1", "HTTP API")
    shown = await visitor.page.eval_on_selector_all("details", "(all) => all.map((each) => each.id)")
    named = [f"schema-{name}" for name in document["components"]["schemas"]]
    assert sorted(shown) == sorted([told["operationId"] for told in operations] + named)
    opened = visitor.page.locator("#submitJob")
    await expect(opened.locator("pre")).to_contain_text(f"curl -s -X POST '{url}/api/jobs'")
    await expect(opened).to_contain_text("idempotency-key", ignore_case=True)
    await expect(opened).to_contain_text("OTHER_BODY")
    await visitor.page.fill("#filter", "pause platform")
    await expect(visitor.page.locator("summary .method")).to_have_count(2)
