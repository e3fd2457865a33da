"""W3, P6: a secret that passes through a run is in no file and no process that the run leaves or starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harnessd.daemon.assemble import Runtime
from harnessd.facts.control import Resume
from harnessd.models.script import Answer, Call, Refusal
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import Living, call, make_home, make_settings, results, write

SECRETS = {
    "plain": "hush-hush-4711",
    "quoted": 'pa"ss\\wo/rd 99',
    "other alphabet": "пароль-4711-ü",
}
SHAPES = {
    "github": "ghp_" + "a1B2" * 9,
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "anthropic": "sk-ant-api03-" + "x7Yz" * 8,
}


def traces(base: Path, secret: str) -> list[str]:
    """Every file below `base` and every git object of it that holds the secret, in any spelling of JSON."""
    spelt = secret
    forms = set()
    for _ in range(4):
        forms.add(spelt.encode())
        forms.add(json.dumps(spelt, ensure_ascii=False)[1:-1].encode())
        spelt = json.dumps(spelt)[1:-1]
    store = base / "state" / "secrets"
    found = [
        str(path.relative_to(base))
        for path in base.rglob("*")
        if path.is_file() and path != store and any(form in path.read_bytes() for form in forms)
    ]
    for repository in base.rglob(".git"):
        listed = subprocess.run(
            ["git", "-C", repository.parent, "cat-file", "--batch-all-objects", "--batch"],
            capture_output=True,
            check=True,
        ).stdout
        found += [f"an object of {repository}"] if any(form in listed for form in forms) else []
    return found


def store(base: Path, secret: str) -> None:
    path = base / "state" / "secrets"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(f"DEPLOY_TOKEN={secret}\n", encoding="utf-8")


ARGUMENTS = {
    "remember": lambda s: {"text": f"the token is {s}"},
    "remember heading": lambda s: {"text": "a fact", "heading": s},
    "forget": lambda s: {"text": s},
    "write skill": lambda s: {"path": "skills/tea/SKILL.md", "content": f"---\nname: tea\ndescription: x\n---\n{s}\n"},
    "write script": lambda s: {"path": "skills/tea/scripts/a.sh", "content": f"curl -H {s}\n"},
    "write path": lambda s: {"path": f"skills/{s}/SKILL.md", "content": "x"},
    "write agents": lambda s: {"path": "AGENTS.md", "content": f"Use {s}.\n"},
    "write work": lambda s: {"path": "work/a.txt", "content": s},
    "edit": lambda s: {"path": "AGENTS.md", "edits": [{"old": "a", "new": s}]},
    "edit old": lambda s: {"path": "AGENTS.md", "edits": [{"old": s, "new": "b"}]},
    "skill": lambda s: {"name": s},
    "todo": lambda s: {"todos": [{"text": s, "status": "open"}]},
    "artifact": lambda s: {"path": "AGENTS.md", "title": s},
    "artifact path": lambda s: {"path": f"work/{s}.txt"},
    "unknown tool": lambda s: {"a": s},
    "not fitting": lambda s: {"path": {"deep": [s]}},
}


@pytest.mark.parametrize("which", SECRETS)
@pytest.mark.parametrize("what", ARGUMENTS)
async def test_w3_a_value_of_the_store_in_any_argument_is_written_nowhere(
    tmp_path: Path, what: str, which: str
) -> None:
    secret = SECRETS[which]
    store(tmp_path, secret)
    name = what.split()[0].replace("unknown", "launch").replace("not", "read")
    script = [Answer(calls=(Call(name, ARGUMENTS[what](secret)),)), Answer(f"I used {secret}.")]
    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            one = Living(runtime, home, server)
            session, state = await one.say("go on")
            for approval in state.pending_approvals:
                await session.control(Resume(approval_id=approval.id, decision="allow"))
            await session.idle()
            await session.close()
    assert not traces(tmp_path, secret)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "MY_SECRET", "DB_PASSWORD"])
async def test_w3_a_key_of_the_environment_is_kept_out_too(tmp_path: Path, name: str) -> None:
    """Providers repeat the key in their error messages."""
    secret = "hush-hush-4711"
    refusal = Refusal(401, {"error": {"message": f"Incorrect API key provided: {secret}"}})
    script = [call("remember", text=f"the key is {secret}"), refusal]
    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key", name: secret}) as runtime:
            one = Living(runtime, home, server)
            session, state = await one.say("go on")
            for approval in state.pending_approvals:
                await session.control(Resume(approval_id=approval.id, decision="allow"))
            state = await session.idle()
            await session.close()
    assert not traces(tmp_path, secret)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "path", ["MEMORY.md", "skills/tea/SKILL.md", "skills/tea/assets/x.bin", "AGENTS.md", "tools.json"]
)
async def test_w3_a_token_by_its_shape_never_becomes_a_git_object(tmp_path: Path, path: str, shape: str) -> None:
    secret = SHAPES[shape]
    contents = {"tools.json": json.dumps({"mcpServers": {"x": {"url": "https://h/", "headers": {"A": secret}}}})}
    content = contents.get(path, f"---\nname: tea\ndescription: x\n---\n\nKey {secret}\n")
    script = [
        Answer(calls=(Call("read", {"path": path}), Call("write", {"path": path, "content": content}))),
        Answer("done"),
    ]
    async with ScriptedServer(script) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            one = Living(runtime, home, server)
            session, state = await one.say("go on")
            for approval in state.pending_approvals:
                await session.control(Resume(approval_id=approval.id, decision="allow"))
            state = await session.idle()
            status, text = results(state)[-1]
            assert status == "error"
            assert f"{path}:" in text
            assert secret not in text
    assert not [trace for trace in traces(tmp_path, secret) if "object" in trace]


NOISY = """
import json, os, sys
sys.stderr.write("starting with " + os.environ["TOKEN"] + "\\n")
sys.exit(3)
"""


async def test_w3_a_server_that_tells_its_environment_to_its_log(tmp_path: Path) -> None:
    secret = "hush-hush-4711"
    store(tmp_path, secret)
    noisy = tmp_path / "noisy.py"
    noisy.write_text(NOISY)
    server_json = {"command": sys.executable, "args": [str(noisy)], "env": {"TOKEN": "${DEPLOY_TOKEN}"}}
    async with ScriptedServer([Answer("done")]) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        write(home.path / "tools.json", json.dumps({"mcpServers": {"noisy": server_json}}))
        async with Runtime.open(settings, {"OPENAI_API_KEY": "test-key"}) as runtime:
            await Living(runtime, home, server).say("go on")
    assert not traces(tmp_path, secret)
