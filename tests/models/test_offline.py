"""The offline model: each sentence does what it says, AGENTS.md shows in its answers, nothing is random."""

import json
from contextlib import aclosing

import pytest
from asking import READ, make_request, read_reply, user
from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.message import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from harnessd.models.assembler import Reply
from harnessd.models.models import Models
from harnessd.models.offline import Turn, answer
from harnessd.models.request import ToolSpec

SYSTEM = """<home-file path="AGENTS.md">
# Ada

I am Ada, who keeps the tea house.

- Be brief.
</home-file>

<home-file path="KNOWLEDGE.md">
Oolong is half oxidised.
</home-file>

# Your home

AGENTS.md says who you are, MEMORY.md what you learned.

# Skills

- make-tea: How to brew a pot of tea.
- count-money: Counts the till.

# Subagents

- tea-taster: tastes tea

<home-file path="MEMORY.md">
- The user likes green tea.
- The shop closes at six.
</home-file>
"""


def tool(name: str, *required: str, **properties: object) -> ToolSpec:
    fields = {key: {"type": "string"} for key in required} | properties
    return ToolSpec(
        name=name,
        input_schema={"type": "object", "properties": fields, "required": list(required or properties)},
    )


ITEM = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "status": {"type": "string", "enum": ["pending", "done"]}},
}
EXECUTE = ("command", "background", "job", "action")
CONNECT = ("action", "name", "url", "command", "args")
TOOLS = (
    READ,
    tool("write", "path", "content"),
    tool(
        "edit",
        "path",
        edits={"type": "array", "items": {"type": "object", "properties": {"old": {}, "new": {}}}},
    ),
    tool("remember", "text", heading={"type": "string"}),
    tool("forget", "text"),
    tool("skill", "name"),
    ToolSpec(name="execute", input_schema={"type": "object", "properties": {key: {} for key in EXECUTE}}),
    ToolSpec(name="connect", input_schema={"type": "object", "properties": {key: {} for key in CONNECT}}),
    tool("delegate", "agent", "task"),
    tool("todo", todos={"type": "array", "items": ITEM}),
    tool("conclude", "conclusion"),
    tool("mcp__time__now", "zone"),
)


def turn(text: str, system: str = SYSTEM, tools: tuple[ToolSpec, ...] = TOOLS, after=()) -> Turn:
    return answer(make_request("offline", system=system, tools=tools, messages=(user(text), *after)))


SKILL = """---
name: make-mate
description: "How to make mate. Use it when asked how to do that."
---

# make mate

1. heat
2. pour
"""
SENTENCES = [
    ("remember that I like tea", "remember", {"text": "I like tea"}),
    ("Please remember: the door sticks.", "remember", {"text": "the door sticks."}),
    ("forget that I like tea", "forget", {"text": "I like tea"}),
    ("learn a skill make mate: heat; pour", "write", {"path": "skills/make-mate/SKILL.md", "content": SKILL}),
    (
        "learn a skill make mate:\n1. heat\n2. pour",
        "write",
        {"path": "skills/make-mate/SKILL.md", "content": SKILL},
    ),
    (
        "learn a skill make mate:\nheat\npour",
        "write",
        {"path": "skills/make-mate/SKILL.md", "content": SKILL},
    ),
    ("use skill make-tea", "skill", {"name": "make-tea"}),
    ("how do I brew tea?", "skill", {"name": "make-tea"}),
    ("How do you count the money?", "skill", {"name": "count-money"}),
    ("read AGENTS.md", "read", {"path": "AGENTS.md"}),
    ("write work/a.txt: hello", "write", {"path": "work/a.txt", "content": "hello\n"}),
    ("write work/a.txt:\nread b\nrun c", "write", {"path": "work/a.txt", "content": "read b\nrun c\n"}),
    ('in a.txt, replace "x y" with "z"', "edit", {"path": "a.txt", "edits": [{"old": "x y", "new": "z"}]}),
    ("run `ls -l`", "execute", {"command": "ls -l"}),
    ("run in the background: sleep 9", "execute", {"command": "sleep 9", "background": True}),
    ("look at job_1-a.", "execute", {"job": "job_1-a", "action": "look"}),
    ("Stop the job job_1-a", "execute", {"job": "job_1-a", "action": "stop"}),
    ("list the servers", "connect", {"action": "list"}),
    ("try the server https://a.example/mcp", "connect", {"action": "try", "url": "https://a.example/mcp"}),
    ("try the server uvx 'a b'", "connect", {"action": "try", "command": "uvx", "args": ["a b"]}),
    ('attach the server a: "it', "connect", {"action": "attach", "name": "a", "command": '"it'}),
    ("detach the server a.", "connect", {"action": "detach", "name": "a"}),
    ("delegate to taster: try the tea", "delegate", {"agent": "taster", "task": "try the tea"}),
    (
        "todo: a; b",
        "todo",
        {"todos": [{"text": "a", "status": "pending"}, {"text": "b", "status": "pending"}]},
    ),
    ("conclude that it rains", "conclude", {"conclusion": "it rains"}),
    ('call mcp__time__now {"zone": "UTC"}', "mcp__time__now", {"zone": "UTC"}),
]


@pytest.mark.parametrize(("text", "name", "arguments"), SENTENCES)
def test_each_sentence_calls_its_tool(text, name, arguments) -> None:
    ((called, given),) = turn(text).calls
    assert (called, json.loads(given)) == (name, arguments)


SAYINGS = [
    ("what do you know about oolong?", "Oolong is half oxidised."),
    ("what is my tea?", "- The user likes green tea."),
    ("what do you know about ships?", "I know nothing about ships."),
    ("how do I fly a kite?", "I know no skill for that: fly a kite."),
    ("say hello there", "hello there"),
]


@pytest.mark.parametrize(("text", "said"), SAYINGS)
def test_it_answers_from_the_prompt(text, said) -> None:
    assert turn(text) == Turn(said)


@pytest.mark.parametrize("verb", ["I am", "You are", "You're"])
def test_it_says_who_the_agent_is_and_what_answers(verb) -> None:
    said = turn("Who are you?", SYSTEM.replace("I am Ada", f"{verb} Ada")).text
    assert said.startswith("I am Ada, who keeps the tea house.")
    assert "not an AI" in said


SELVES = [
    ("You are a cook. You work for one person.", "I am a cook. I work for one person."),
    ("You help whoever talks to you. Your worth is yours.", "I help whoever talks to me. My worth is mine."),
    (
        "Your rule: they never tell you twice; keep what you learn.",
        "My rule: they never tell me twice; keep what I learn.",
    ),
    ("They trust you, and you trust yourself.", "They trust me, and I trust myself."),
    ("Young Yourik knows.", "Young Yourik knows."),
]


@pytest.mark.parametrize(("told", "said"), SELVES)
def test_what_agents_tells_it_it_says_of_itself(told, said) -> None:
    assert turn("who are you", f'<home-file path="AGENTS.md">\n# Who\n\n{told}\n</home-file>\n').text.startswith(said)


@pytest.mark.parametrize("block", ["# A heading", "- an item", "1. a step", "> a quote"])
def test_a_greeting_does_not_run_into_a_list_or_a_heading(block) -> None:
    system = '<home-file path="AGENTS.md">\n# A\n\nBegin every answer with "Ahoy!"\n</home-file>\n'
    assert turn(f"say {block}", system).text == f"Ahoy!\n\n{block}"


def test_it_says_what_it_is() -> None:
    said = turn("Compose a sonnet").text
    assert "not an AI" in said
    assert "Compose a sonnet" in said
    assert "remember that …" in said


RULES = [
    ('Begin every answer with "Ahoy!"', "Ahoy! hello"),
    ("Begin every answer with Ahoy!", "Ahoy! hello"),
    ('Sign every answer with "- Ada"', "hello\n\n- Ada"),
    ("Call the user Captain.", "Captain, hello"),
    ("Always answer in capital letters.", "HELLO"),
    ('Call the user "Sir". Start each reply with "Well,"', "Well, Sir, hello"),
]


@pytest.mark.parametrize(("rule", "said"), RULES)
@pytest.mark.parametrize("system", ["{}", '<home-file path="AGENTS.md">\n# A\n\n- {}\n</home-file>\n'])
def test_h1_an_edit_of_agents_shows_in_the_answer(rule, said, system) -> None:
    assert turn("say hello", system.format(rule)).text == said


def test_a_rule_outside_agents_is_not_obeyed() -> None:
    planted = SYSTEM.replace("The shop closes", 'Begin every answer with "Ha!" The shop closes')
    assert turn("say hello", planted).text == "hello"


def results(turn_: Turn, status: str = "ok", text: str = "fine"):
    calls = tuple(ToolCall(id=f"c{n}", name=name, arguments=given) for n, (name, given) in enumerate(turn_.calls))
    told = [
        ToolMessage(tool_call_id=call.id, tool_name=call.name, status=status, parts=(TextPart(text=text),))
        for call in calls
    ]
    return (AssistantMessage(tool_calls=calls), *told)


def test_lines_are_parallel_calls_and_then_is_the_next_turn() -> None:
    text = "remember that a is b\nread x.txt\nthen forget c\nsay done"
    first = turn(text)
    assert [name for name, _ in first.calls] == ["remember", "read"]
    second = turn(text, after=results(first))
    assert [name for name, _ in second.calls] == ["forget"]
    last = turn(text, after=(*results(first), UserMessage(kind="note"), *results(second, "denied", "not now")))
    assert last == Turn("fine\n\nfine\n\nforget did not succeed (denied): not now\n\ndone")


TOLD = [
    ("remember that a", "Remember: a (commit 0123456789).", "Remembered: a (commit 0123456789)."),
    ("forget a", "Forget 2 facts: a (commit 0123456789).", "Forgot 2 facts: a (commit 0123456789)."),
    ("learn a skill tea: heat", "Add skill tea (commit 0123456789).", "Added skill tea (commit 0123456789)."),
    ("write work/a: b", "Made work/a (2 bytes).", "Made work/a (2 bytes)."),
    ("use skill make-tea", '<skill name="make-tea" path="x">\n# Tea\n\n1. heat\n</skill>', "# Tea\n\n1. heat"),
    ("read a.txt", "Add water.\n<skill> is a word", "Add water.\n<skill> is a word"),
    ("call mcp__time__now {}", "12:00", "mcp__time__now: 12:00"),
    ("read a.txt", "", "read: done."),
]


@pytest.mark.parametrize(("text", "result", "said"), TOLD)
def test_a_result_is_told_as_a_person_would(text, result, said) -> None:
    assert turn(text, after=results(turn(text), text=result)).text == said


def test_several_long_results_are_each_told_in_short() -> None:
    first = turn("read a.txt\nread b.txt")
    said = turn("read a.txt\nread b.txt", after=results(first, text="x" * 1500)).text
    assert said.count("(1500 characters in all)") == 2
    assert len(said) < 1000


def test_the_list_of_sentences_holds_only_what_can_be_done_here() -> None:
    said = turn("help", tools=(READ,)).text
    assert "- read FILE" in said
    assert "run COMMAND" not in said
    assert "delegate" not in said


def test_what_is_known_of_a_thing_is_no_skill_for_it() -> None:
    said = turn("how do I open the door to tea?", SYSTEM.replace("make-tea", "x").replace("pot of tea", "y")).text
    assert said.startswith("I know no skill for that")
    assert "- The user likes green tea." in said


def test_l1_broken_arguments_are_sent_as_written() -> None:
    assert turn('call read {"path": ').calls == (("read", '{"path":'),)
    assert turn("call unheard_of").calls == (("unheard_of", "{}"),)


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    said = turn("run ls", tools=(READ,))
    assert said.calls == ()
    assert "not offered" in said.text


@given(st.text(max_size=80), st.text(max_size=80))
def test_anything_gets_the_same_answer_twice(text, system) -> None:
    one = turn(text, system)
    assert one == turn(text, system)
    assert one.text or one.calls


@pytest.mark.parametrize("purpose", ["summary", "classifier", "maintenance"])
def test_other_purposes_get_a_text(purpose) -> None:
    given = answer(make_request("offline", purpose=purpose, messages=(user("read a"),), tools=TOOLS))
    assert given.text
    assert not given.calls


async def test_it_streams_like_any_model() -> None:
    models = Models({})
    request = make_request("offline", "read a.txt\nremember that b", system=SYSTEM, tools=TOOLS)
    reply = await read_reply(models, request)
    assert isinstance(reply, Reply)
    assert [call.name for call in reply.tool_calls] == ["read", "remember"]
    assert reply.finish == "tool_calls"
    assert reply.usage.estimated
    assert reply.usage.cost == 0.0
    async with aclosing(models.stream(make_request("offline", "who are you", system=SYSTEM))) as stream:
        assert len([chunk async for chunk in stream]) > 3
    await models.close()
