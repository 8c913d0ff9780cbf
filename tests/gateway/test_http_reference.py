"""gateway/http.md and keys.md name every route of the table."""

import re

from tailrace.gateway.application import TABLE
from tailrace.ops.bootstrap import CHECKOUT

PLACE = re.compile(r"\{\w+\}")
TEXT = PLACE.sub(
    "{}", "".join((CHECKOUT / "gateway" / name).read_text(encoding="utf-8") for name in ("http.md", "keys.md"))
)
OF_THE_PAGE = {"/page/{name}", "/page/{folder}/{name}"}


def test_every_route_has_a_row() -> None:
    """By its whole path, or beside the path before it by its end: `POST …/pause`, `/resume`."""
    missing = []
    for said in TABLE.values():
        path = PLACE.sub("{}", said.path)
        whole = rf"`(?:{said.method} )?{re.escape(path)}[ ?`]"
        end = rf"`(?:{said.method} )?(?:…(?:/{{}})?)?/{path.rsplit('/', 1)[-1]}`"
        if said.path not in OF_THE_PAGE and not re.search(f"{whole}|{end}", TEXT):
            missing.append(said.name)
    assert missing == []
