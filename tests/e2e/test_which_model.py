"""Where the model, its address and its key may come from, and what wins, through the real command."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harnessd.models.script import Answer, Refusal
from harnessd.models.scripted import ScriptedServer
from tests.cli.command_line import make, workspaces, write
from tests.e2e.lanes import DIRECT, LANES, WORKER, Lane, harnessd, of_type

KEY = {"OPENAI_API_KEY": "sk-env"}


def agents(front_matter: str) -> Callable[[str], None]:
    return lambda _: _write_agents(front_matter)


def settings(text: str) -> Callable[[str], None]:
    def given(url: str) -> None:
        write(workspaces(), "harnessd_yaml", text.replace("URL", f"{url}/v1"))

    return given


def secrets(url: str) -> None:
    """The secret store: key and address both."""
    store = Path.home() / ".local" / "state" / "harnessd" / "secrets"
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(f"OPENAI_API_KEY=sk-store\nOPENAI_API_BASE={url}/v1\n")
    store.chmod(0o600)


@dataclass(frozen=True)
class Row:
    """What is set up (each is given the server's address), flags, variables, the model and key that arrive."""

    model: str
    given: tuple[Callable[[str], None], ...] = ()
    flags: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    key: str = "sk-env"
    base_in_env: bool = True


ROWS: dict[str, Row] = {
    "AGENTS.md": Row("by-home", (agents("model: openai/by-home"),)),
    "--model": Row("by-flag", flags=("--model", "openai/by-flag")),
    "HARNESSD_MODEL": Row("by-env", env={"HARNESSD_MODEL": "openai/by-env"}),
    "harnessd.yaml": Row("by-file", (settings("model: openai/by-file\n"),)),
    "a key in the environment": Row("gpt-5-mini"),
    "apiBase in harnessd.yaml": Row(
        "by-file", (settings("model: openai/by-file\napiBase: URL\n"),), base_in_env=False
    ),
    "the secret store": Row("gpt-5-mini", (secrets,), key="sk-store", base_in_env=False, env={"OPENAI_API_KEY": ""}),
    "the flag before the home": Row("by-flag", (agents("model: openai/by-home"),), ("--model", "openai/by-flag")),
    "the home before the operator": Row(
        "by-home", (agents("model: openai/by-home"),), env={"HARNESSD_MODEL": "openai/by-env"}
    ),
    "the variable before the file": Row(
        "by-env", (settings("model: openai/by-file\n"),), env={"HARNESSD_MODEL": "openai/by-env"}
    ),
    "auto in the home is the operator's": Row(
        "by-file", (agents("model: auto"), settings("model: openai/by-file\n"))
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
async def test_the_model_its_address_and_its_key(case: str) -> None:
    row = ROWS[case]
    make()
    async with ScriptedServer([Answer("here")]) as server:
        for prepare in row.given:
            prepare(server.url)
        base = {"OPENAI_API_BASE": f"{server.url}/v1"} if row.base_in_env else {}
        said = await harnessd("run", "ada", "hi", *row.flags, env={**KEY, **base, **row.env})
    assert (said.code, said.out) == (0, "here\n"), said
    [request] = server.requests
    assert request.body["model"] == row.model
    assert request.headers["Authorization"] == f"Bearer {row.key}"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
async def test_l3_a_fallback_model_of_the_home_answers_and_is_on_record(lane: Lane) -> None:
    """In the home's own order; each lane falls back into the direct one."""
    make()
    _write_agents(f"model: {lane.model}\nfallbackModels: [openai/second, openai/third]")
    refusal = Refusal(401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}})
    answers = {"second": refusal, "third": Answer("by the third")}
    async with ScriptedServer(lambda request: answers.get(request.body["model"], refusal)) as server:
        env = {**lane.env(server), **DIRECT.env(server)}
        said = await harnessd("run", "ada", "hi", "--json", env=env)
    assert said.code == 0, said
    retried = of_type(said.records, "turn.retried")
    assert [(one["action"], one["model"], one["failure"]["kind"]) for one in retried] == [
        ("fallback", "openai/second", "auth"),
        ("fallback", "openai/third", "auth"),
    ]
    [finished] = of_type(said.records, "turn.finished")
    assert finished["model"] == "scripted", "the name by which the one that answered calls itself"
    assert [request.body["model"] for request in server.requests] == [
        lane.model.removeprefix("openai/").removeprefix("anthropic/"), "second", "third",
    ]  # fmt: skip


ADDRESSES = ("apiBase", "api_base", "baseUrl", "base_url", "OPENAI_API_BASE", "ANTHROPIC_API_BASE", "HARNESSD_API_BASE")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
async def test_p6_no_file_of_a_home_leads_the_key_elsewhere(lane: Lane) -> None:
    """Each way a home could try to name an address; the request goes where the operator said, or nowhere."""
    home = make()
    async with ScriptedServer([Answer("here")]) as server, ScriptedServer([Answer("caught")]) as elsewhere:
        away = f"{elsewhere.url}{lane.suffix}"
        keys = "\n".join(f"{name}: {away}" for name in ADDRESSES)
        _write_agents(
            f"model: {lane.model}\n{keys}\nenv: {{{lane.base}: '{away}'}}\nmodelSettings: {{apiBase: '{away}'}}"
        )
        write(home, "harnessd_yaml", f"apiBase: {away}\nmodel: {lane.model}\n")
        write(home, "tools_json", f'{{"apiBase": "{away}", "env": {{"{lane.base}": "{away}"}}}}')
        for folder in (home, home / "work", home / "agents"):
            (folder / ".env").write_text("".join(f"{name}={away}\n" for name in ADDRESSES))
        said = await harnessd("run", home, "hi", env=lane.env(server))
        assert said.out == "here\n", said
        # A name that is refused takes no lane.
        for name in () if lane is WORKER else (away, f"{lane.model.partition('/')[0]}/{away}", f"huggingface/{away}"):
            _write_agents(f"model: {name}")
            env = {**lane.env(server), "HUGGINGFACE_API_KEY": "hf-key"}
            refused = await harnessd("run", home, "hi", env=env)
            assert refused.code == 5, refused
            assert "apiBase in harnessd.yaml" in refused.err
    assert len(server.requests) == 1
    assert elsewhere.requests == []


def _write_agents(front_matter: str) -> None:
    write(workspaces() / "ada", "AGENTS_md", f"---\n{front_matter}\n---\n# Ada\n\nYou are Ada.\n")
