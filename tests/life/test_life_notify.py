"""F1, W3: who is told of what waits, failed or ended; and that telling never delays, repeats or betrays anything."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
import yaml
from aiohttp import web
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Happening, Notify, Settings, load_settings
from harnessd.daemon.notify import AT_ONCE, ENVIRONMENT, LAST_WORDS_S, WAITING, Notification, Notifier, happening
from harnessd.daemon.redaction import redactor
from harnessd.daemon.session import Accepted
from harnessd.errors import UsageError
from harnessd.facts.control import Invoke
from harnessd.facts.event import Event, RunFinished, RunParked, RunStarted, ToolApprovalRequired
from harnessd.facts.run import Approval, Failure
from harnessd.home.layout import Home
from harnessd.models.script import Answer
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import call, make_home, make_settings
from tests.e2e.lanes import descendants

SECRET = "sk-a-value-of-the-secret-store"
KEEP = redactor(())
ABOUT: dict[str, Any] = {"session_id": "ses_1", "agent_id": "main", "run_id": "run_1", "at": "2026-01-01T00:00:00Z"}

APPROVAL = ToolApprovalRequired(approval=Approval(id="apr_1", tool_name="write", run_id="run_1"), **ABOUT)
FAILED = RunFinished(reason="failed", failure=Failure(kind="ModelUnavailable", message="no key"), **ABOUT)
ENDED = RunFinished(reason="completed", **ABOUT)
PARKED = RunParked(reason="safe_mode", **ABOUT)
BELOW = {**ABOUT, "agent_id": "explore"}

TABLE: tuple[tuple[Event, Happening | None], ...] = (
    (APPROVAL, "approval"),
    (ToolApprovalRequired(approval=Approval(id="apr_2"), **BELOW), "approval"),
    (PARKED, "parked"),
    (FAILED, "failed"),
    (ENDED, "ended"),
    (RunFinished(reason="stopped", **ABOUT), "ended"),
    (RunFinished(reason="cost_budget", **ABOUT), "ended"),
    (RunFinished(reason="failed", **BELOW), None),
    (RunFinished(reason="completed", **BELOW), None),
    (RunStarted(**ABOUT), None),
)


def a(**given: object) -> Notify:
    made: Notify = TypeAdapter(Notify).validate_python({"on": ["approval", "parked", "failed", "ended"], **given})
    return made


def writes(file: Path) -> Sequence[str]:
    """A command that keeps what it is told: its input, and the names of its environment."""
    code = f"import sys,os; open({str(file)!r},'a').write(sys.stdin.read()+chr(10)+' '.join(os.environ)+chr(10))"
    return [sys.executable, "-I", "-S", "-c", code]


@asynccontextmanager
async def endpoint(status: int = 200) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook of somebody's, and what it was sent."""
    got: list[dict[str, Any]] = []

    async def take(request: web.Request) -> web.Response:
        got.append(await request.json())
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook", got
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(("event", "kind"), TABLE)
def test_f1_what_is_worth_telling(event: Event, kind: Happening | None) -> None:
    told = happening("ada", "Tea", event)
    assert (told.event if told else None) == kind


async def test_f1_each_is_told_what_it_wants_once(tmp_path: Path) -> None:
    wanted = {
        "all": ("approval", "parked", "failed", "ended"),
        "waits": ("approval", "parked"),
        "ended": ("ended",),
        "failed": ("failed",),
    }
    got = {
        "all": ["approval", "parked", "failed", "ended"],
        "waits": ["approval", "parked"],
        "ended": ["failed", "ended"],
        "failed": ["failed"],
    }
    rules = [a(on=on, command=writes(tmp_path / name)) for name, on in wanted.items()]
    async with Notifier.open(rules, {}, KEEP) as notifier:
        for event in (APPROVAL, PARKED, FAILED, ENDED):
            notifier.tell("ada", lambda: "Tea", event)
    for name, kinds in got.items():
        told = [json.loads(line) for line in (tmp_path / name).read_text().splitlines() if line.startswith("{")]
        assert sorted(one["event"] for one in told) == sorted(kinds)


async def test_f1_a_command_and_a_webhook_get_the_same_object(tmp_path: Path) -> None:
    async with endpoint() as (url, got):
        rules = [a(command=writes(tmp_path / "told")), a(webhook=url)]
        async with Notifier.open(rules, {}, KEEP) as notifier:
            notifier.tell("ada", lambda: "Tea", APPROVAL)
            notifier.tell("ada", lambda: "Tea", FAILED)
    lines = [line for line in (tmp_path / "told").read_text().splitlines() if line.startswith("{")]
    by_event = {one["event"]: one for one in map(json.loads, lines)}
    assert by_event == {one["event"]: one for one in got}
    approval, failed = by_event["approval"], by_event["failed"]
    assert approval["approval"]["id"] == "apr_1"
    assert approval["approval"]["toolName"] == "write"
    assert "failure" not in approval
    assert failed["failure"]["message"] == "no key"
    for told in (approval, failed):
        assert {key: told[key] for key in ("agent", "agentId", "sessionId", "runId", "title")} == {
            "agent": "ada", "agentId": "main", "sessionId": "ses_1", "runId": "run_1", "title": "Tea",
        }  # fmt: skip


async def test_p6_a_command_sees_no_key_and_nobody_is_told_a_secret(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": SECRET, "HARNESSD_TOKEN": SECRET, "DISPLAY": ":0"}
    told = ToolApprovalRequired(approval=Approval(id="apr_1", arguments={"text": SECRET}), **ABOUT)
    async with Notifier.open([a(command=writes(tmp_path / "told"))], env, redactor((SECRET,))) as notifier:
        notifier.tell("ada", lambda: SECRET, told)
    text = (tmp_path / "told").read_text()
    assert SECRET not in text
    names = set(text.splitlines()[-1].split())
    assert {"PATH", "DISPLAY"} <= names
    assert names <= {"PATH", "DISPLAY", "LC_CTYPE"}


SLEEPS = "import time; time.sleep(60)"
BAD: dict[str, dict[str, Any]] = {
    "hangs": {"command": [sys.executable, "-I", "-S", "-c", SLEEPS], "timeout": 0.2},
    "fails": {"command": [sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"]},
    "is missing": {"command": ["no-such-program-anywhere", "--password=hidden"]},
    "is no program": {"command": ["/etc/hostname"]},
    "reads nothing": {"command": [sys.executable, "-I", "-S", "-c", "import os; os.close(0); os._exit(1)"]},
    "refuses": {"webhook": "http://127.0.0.1:9/hidden"},
}


@pytest.mark.parametrize("kind", BAD)
async def test_f1_a_notifier_that_does_not_work_is_logged_once_and_delays_nobody(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Notifier.open([a(**BAD[kind]), a(command=writes(tmp_path / "well"))], {}, KEEP) as notifier:
        begun = anyio.current_time()
        for _ in range(3):
            notifier.tell("ada", lambda: "Tea", APPROVAL)
        assert anyio.current_time() - begun < 0.1
    logged = [record for record in caplog.records if record.name == "harnessd.daemon.notify"]
    assert [record.getMessage() for record in logged] == ["a notifier failed"]
    assert "hidden" not in str(vars(logged[0]))
    assert (tmp_path / "well").read_text().count('"event"') == 3


@pytest.mark.parametrize("status", [304, 404, 500])
async def test_f1_a_webhook_that_answers_otherwise_failed_and_is_not_followed(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with endpoint(status) as (url, got), Notifier.open([a(webhook=url)], {}, KEEP) as notifier:
        notifier.tell("ada", lambda: "Tea", APPROVAL)
    assert len(got) == 1
    assert f"it answered {status}" in str([vars(record) for record in caplog.records])


async def test_o2_at_the_end_nothing_of_a_notifier_is_left_and_too_many_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = set(descendants(os.getpid()))
    forks = f"import os; os.fork(); {SLEEPS}"
    async with Notifier.open([a(command=[sys.executable, "-I", "-S", "-c", forks])], {}, KEEP) as notifier:
        for _ in range(WAITING + AT_ONCE + 10):
            notifier.tell("ada", lambda: "Tea", APPROVAL)
        begun = anyio.current_time()
    assert anyio.current_time() - begun < LAST_WORDS_S + 2
    assert set(descendants(os.getpid())) <= before
    assert sum(record.getMessage() == "notifications are dropped" for record in caplog.records) == 1


async def test_f1_an_approval_is_told_when_it_is_asked_for_and_not_again_by_the_next_daemon(tmp_path: Path) -> None:
    async with ScriptedServer([call("write", path="work/a.txt", content="one"), Answer("done")]) as server:
        settings = make_settings(tmp_path, server.url)
        home = make_home(settings)
        file = tmp_path / "told"
        told: list[str] = []

        def watching(notifier: Notifier) -> Any:
            def watch(home: Home, event: Event) -> None:
                told.append(event.type)
                notifier.tell(home.name, lambda: "", event)

            return watch

        for number in range(2):
            async with Notifier.open([a(command=writes(file))], {}, KEEP) as notifier:
                opened = Runtime.open(settings, {"OPENAI_API_KEY": "k"}, watch=watching(notifier))
                async with opened as runtime:
                    if number:
                        assert len((await runtime.recover()).waiting) == 1
                        assert len(runtime.waiting()) == 1
                    else:
                        session = await runtime.session(home)
                        assert isinstance(await session.control(Invoke(input="go")), Accepted)
                        assert (await session.idle()).pending_approvals
        lines = [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
        assert [one["event"] for one in lines] == ["approval"]
        assert told.count("tool.approval_required") == 1


SETTINGS = {
    "notify: [{command: []}]": "notify.0.command",
    "notify: [{on: [lunch], command: [a]}]": "notify.0.command.on",
    "notify: [{on: [], command: [a]}]": "on",
    "notify: [{webhook: 'ftp://x'}]": "http://",
    "notify: [{webhook: 'http://x', command: [a]}]": "command",
    "notify: [{webhook: 'http://x', timeout: 0}]": "timeout",
    "notify: [{on: [failed]}]": "command",
    "notify: {command: [a]}": "notify",
    "graceSeconds: -1": "graceSeconds",
}


@pytest.mark.parametrize("text", SETTINGS)
def test_a_setting_that_cannot_be_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "harnessd.yaml").write_text(text)
    with pytest.raises(UsageError) as refused:
        load_settings({"workspaces": tmp_path, "state_dir": tmp_path / "s"}, env={"HOME": str(tmp_path)})
    assert SETTINGS[text] in str(refused.value)
    assert "harnessd.yaml" in str(refused.value)


def test_settings_that_can_be(tmp_path: Path) -> None:
    text = "notify:\n- on: [approval]\n  command: [notify-send, harnessd]\n- webhook: https://example.org/x\n"
    (tmp_path / "harnessd.yaml").write_text(text)
    found = load_settings({"workspaces": tmp_path, "state_dir": tmp_path / "s"}, env={"HOME": str(tmp_path)})
    assert [one.on for one in found.notify] == [("approval",), ("approval", "parked", "failed")]


def test_the_document_names_what_there_is() -> None:
    text = (Path(__file__).parents[2] / "docs" / "daemon.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    found = Settings.model_validate(yaml.safe_load(example))
    assert {kind for one in found.notify for kind in one.on} == set(get_args(Happening))
    told = json.loads(text.partition("```json\n")[2].partition("```")[0])
    assert set(told) <= {to_camel(name) for name in Notification.model_fields}
    for name in ENVIRONMENT:
        assert f"`{name}`" in text
    for name in re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE):
        assert name in {to_camel(field) for field in Settings.model_fields}
