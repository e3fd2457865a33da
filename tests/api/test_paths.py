"""P5: a path in a URL never leaves the home: a name in it is a name, however it is written."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.served import Served, served

TRICKS = (
    *("..", ".", "%2e%2e", "%2E%2e", "..%2f", "%2e%2e%2f%2e%2e", "..%2f..%2fetc", "%2fetc", "%2Fetc%2Fpasswd", "a%2fb"),
    *(
        "..%5c",
        "%5c",
        "a%5cb",
        "%00",
        "ada%00",
        "ada%00.md",
        "%0a",
        "ada%0d%0aX-A:%20b",
        "%7f",
        "%1b%5b31m",
        "%ff",
        "%c0%ae",
    ),
    *(
        "%c0%ae%c0%ae",
        "%ed%a0%80",
        "~",
        "~root",
        "%7eroot",
        "%7e%2f",
        "$HOME",
        "%24HOME",
        "ada%2f..%2fada",
        "ada/../ada",
    ),
    *(
        "%25%32%65%25%32%65",
        "%252e%252e",
        "%252fetc",
        ".git",
        "%2egit",
        ".hidden",
        "",
        "%20",
        "ada%20",
        "ADA",
        "ada.",
        "a" * 256,
    ),
    *(
        "%e2%80%ae",
        "%ef%bc%8f",
        "ada%e2%81%84",
        "%ef%bc%8e%ef%bc%8e",
        "%e2%88%95etc",
        "ada;x=1",
        "*",
        "%2a",
        "a" * 3000,
        "%zz",
        "%",
    ),
    *("C:%5c", "con", "-rf", "--help", "%7c%20id", "state", "outside"),
)
SESSION_TRICKS = (
    *(
        "last",
        "..%2f..%2fmain%2fsessions%2fx",
        "ses_",
        "ses_..",
        "ses_01kbc3fqz-7h2m9xw%00",
        "ses_01kbc3fqz-7h2m9xw%2f..",
    ),
    *("SES_01KBC3FQZ-7H2M9XW", "ses_01kbc3fqz-7h2m9xw.jsonl", "run_01kbc3fqz-7h2m9xw", "ses_01kbc3fqz-7h2m9xw%0a"),
    *("ses_01kbc3fqz-7h2m9xi", "ses_01kbc3fqz%2d7h2m9xw", "ſes_01kbc3fqz-7h2m9xw"),
)
METHODS = ("GET", "HEAD", "POST", "DELETE")


@pytest.fixture(scope="module")
async def door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    base = tmp_path_factory.mktemp("paths")
    (base / "outside").mkdir()
    async with served(base) as open_door:
        plant_a_home(base / "outside")
        plant_a_home(base / "workspaces" / ".hidden")
        yield open_door


def plant_a_home(path: Path) -> None:
    """What would pass as a home, where none may be found."""
    (path / ".git").mkdir(parents=True)
    (path / "AGENTS.md").write_text("# Not yours\n")


@pytest.mark.parametrize("name", TRICKS)
async def test_p5_a_name_in_a_url_leads_nowhere_else(door: Served, name: str) -> None:
    await door.ask("GET", "/api/agents/ada")
    before = door.snapshot()
    for path in (
        f"/api/agents/{name}",
        f"/api/agents/{name}/sessions",
        f"/api/agents/{name}/sessions/ses_01kbc3fqz-7h2m9xw",
    ):
        for method in METHODS:
            body = {} if method == "POST" else None
            reply = await door.ask(method, path, body)
            known = name == "ada/../ada"  # the server does not resolve it, and there is no such route
            assert reply.status in ({404} if known else {400, 404, 405}), (method, path, reply)
            assert b"Not yours" not in reply.body
            assert method == "HEAD" or reply.kind
    assert door.snapshot() == before


@pytest.mark.parametrize("name", [*SESSION_TRICKS, *TRICKS])
async def test_p5_a_session_in_a_url_leads_nowhere_else(door: Served, name: str) -> None:
    await door.ask("GET", "/api/agents/ada")
    before = door.snapshot()
    for rest in ("", "/transcript", "/events", "/control", "/artifacts/art_01kbc3fqz-7h2m9xw"):
        for method in METHODS:
            body = {"control": "stop"} if method == "POST" else None
            reply = await door.ask(method, f"/api/agents/ada/sessions/{name}{rest}", body)
            escaped_hyphen = name == "ses_01kbc3fqz%2d7h2m9xw"  # an ordinary id, which no session has
            assert reply.status in ({404, 405} if escaped_hyphen else {400, 404, 405}), (method, name, rest, reply)
    assert door.snapshot() == before


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/b", "~root", "A", "a b", "", "é", "-a", "a" * 65, "a\0b", ".git", "/etc"]
)
async def test_p5_an_agent_is_made_under_a_plain_name_only(door: Served, name: str) -> None:
    before = door.snapshot()
    reply = await door.ask("POST", "/api/agents", {"name": name})
    assert reply.status == 400
    assert door.snapshot() == before


@pytest.mark.parametrize("template", ["../../outside", "/etc", "outside", "", ".", "default/../default", "nope"])
async def test_p5_a_template_is_one_that_ships(door: Served, template: str) -> None:
    before = door.snapshot()
    reply = await door.ask("POST", "/api/agents", {"name": "eve", "template": template})
    assert reply.status == 400
    assert "default" in reply.json["hint"]
    assert door.snapshot() == before


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=x", "limit=1e3", "limit=", "limit=1&limit=2", "limit=%d9%a1", "limit=1.5"]
)
async def test_a_query_that_is_no_number_is_refused(door: Served, query: str) -> None:
    session = await door.session()
    for path in ("/api/agents/ada/sessions", f"/api/agents/ada/sessions/{session}/transcript"):
        reply = await door.ask("GET", f"{path}?{query}")
        assert (reply.status, reply.kind) == (400, "invalid-query")
        assert reply.json["where"] == "limit"


async def test_names_are_read_more_tolerantly_than_written(door: Served) -> None:
    """A home that was copied in may bear a name that would not be given to a new one."""
    for name, path in (("My Agent", "My%20Agent"), ("技能", "%E6%8A%80%E8%83%BD")):
        plant = door.base / "workspaces" / name
        if not plant.exists():
            from harnessd.home.create import create

            create(plant)
        assert (await door.ask("GET", f"/api/agents/{path}")).json["agent"] == name
        assert (await door.ask("POST", f"/api/agents/{path}/sessions", {})).status == 201
