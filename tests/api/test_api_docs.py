"""docs/http.md names each route that there is, and no other."""

import re
from pathlib import Path

from harnessd.api.app import make_app
from harnessd.api.door import Door
from tests.daemon.living import living
from tests.house.tree import ROOT


async def test_the_documented_routes_are_those_that_there_are(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| ([A-Z]+) \| `(/[^`]*)`", text, re.MULTILINE))
    async with living(tmp_path, []) as alive:
        routes = make_app(alive.runtime, Door("token")).router.routes()
        served = {(one.method, one.resource.canonical) for one in routes if one.resource and one.method != "HEAD"}
    assert documented == served
