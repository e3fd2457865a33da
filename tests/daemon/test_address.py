"""The operator's address belongs to the operator's model: no other model's requests go there."""

from pathlib import Path

from harnessd.daemon.assemble import Runtime
from harnessd.facts.control import Invoke
from harnessd.facts.event import TurnRetried
from harnessd.models.script import Answer, Refusal
from harnessd.models.scripted import ScriptedServer
from tests.daemon.living import last_text, make_home, make_settings


async def test_a_fallback_model_is_asked_at_its_own_address(tmp_path: Path) -> None:
    agents = "---\nname: Ada\nfallbackModels: [openai/other]\n---\nWork.\n"
    refuses = Refusal(400, {"error": {"message": "no such thing"}})
    async with ScriptedServer([refuses]) as operators, ScriptedServer([Answer("from the other")]) as others:
        settings = make_settings(tmp_path, operators.url)
        home = make_home(settings, **{"AGENTS.md": agents})
        env = {"OPENAI_API_KEY": "test-key", "OPENAI_API_BASE": f"{others.url}/v1"}
        async with Runtime.open(settings, env) as runtime:
            session = await runtime.session(home)
            await session.control(Invoke(input="hello"))
            assert last_text(await session.idle()) == "from the other"
        assert [request.body["model"] for request in operators.requests] == ["scripted"]
        assert [request.body["model"] for request in others.requests] == ["other"]


async def test_l3_a_wait_after_a_fallback_names_the_model_that_is_asked(tmp_path: Path) -> None:
    agents = "---\nname: Ada\nfallbackModels: [openai/other]\n---\nWork.\n"
    busy = Refusal(503, "busy", (("retry-after", "0"),))
    async with (
        ScriptedServer([Refusal(400, {"error": {"message": "no such thing"}})]) as operators,
        ScriptedServer([busy, Answer("at last")]) as others,
    ):
        settings = make_settings(tmp_path, operators.url)
        home = make_home(settings, **{"AGENTS.md": agents})
        env = {"OPENAI_API_KEY": "test-key", "OPENAI_API_BASE": f"{others.url}/v1"}
        async with Runtime.open(settings, env) as runtime:
            session = await runtime.session(home)
            await session.control(Invoke(input="hello"))
            assert last_text(await session.idle()) == "at last"
            retried = [event for event in session.journal() if isinstance(event, TurnRetried)]
    assert [(event.action, event.model) for event in retried] == [
        ("fallback", "openai/other"),
        ("wait", "openai/other"),
    ]
