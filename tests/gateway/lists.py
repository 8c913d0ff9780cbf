"""Lists of jobs over HTTP, read page by page."""

from typing import Any

import httpx2


async def get(http: httpx2.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def gather(http: httpx2.AsyncClient, path: str, limit: int) -> list[str]:
    """All job ids of a list, page by page."""
    found: list[str] = []
    after = ""
    for _ in range(100):
        page = await get(http, f"{path}&limit={limit}{after}")
        assert len(page["data"]) <= limit
        found += [job["jobId"].partition(".")[2] for job in page["data"]]
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"
    raise AssertionError("the list does not end")
