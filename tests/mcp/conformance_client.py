"""A client for the MCP project's conformance suite, which is harnessd's own: `conformance_client.py URL`.

The server comes from a tools.json and is connected, listed and called as in a run, through the same reader and
`Servers`. What it asks is answered as a person would who takes what the form proposes. The suite judges what reaches
its server.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from harnessd.facts.run import Question
from harnessd.facts.state import QuestionAnswer
from harnessd.home.expand import MissingVariable, expand
from harnessd.home.tools_file import read_tools
from harnessd.tools.elicitation import check_answer
from harnessd.tools.servers import Servers, open_servers
from harnessd.tools.tool import Asks, Outcome, StillOpen, Tool, ToolContext
from tests.tools.a_session import a_context, a_home
from tests.tools.surroundings import surroundings

VARIABLES = {"MCP_URL": sys.argv[-1]}
SECONDS = 20


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = a_home(Path(folder), {"tools.json": json.dumps({"mcpServers": {"judge": {"url": "${MCP_URL}"}}})})
        tools, problems = read_tools((home.path / "tools.json").read_bytes())
        assert tools is not None, problems
        server = expand(tools.mcp_servers["judge"], VARIABLES.get)
        assert not isinstance(server, MissingVariable)
        async with open_servers(surroundings(home.path), logs=Path(folder) / "logs") as servers:
            servers.configure({"judge": server})
            await servers.ready(SECONDS)
            say(servers.status(), servers.notes())
            await call_all(servers, a_context(home))


async def call_all(servers: Servers, context: ToolContext) -> None:
    """The calls that the scenario names, or each tool once."""
    told = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    tools = {tool.own_name: tool for tool in servers.tools()}
    wanted = [(one["name"], one.get("arguments", {})) for one in told.get("toolCalls", ())]
    if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "json-schema-2020-12-preservation":
        # The judge wants to be shown the schema of its other tool as the model is shown it.
        (shown,) = (tool for tool in tools.values() if "schema" not in tool.input_schema.get("properties", {}))
        (echo,) = (name for name, tool in tools.items() if "schema" in tool.input_schema.get("properties", {}))
        wanted = [(echo, {"schema": shown.input_schema})]
    for name, arguments in wanted or [(name, filled(tool.input_schema)) for name, tool in tools.items()]:
        if name in tools:
            say(name, arguments, await call(tools[name], context, arguments))


async def call(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> Outcome | StillOpen:
    """One call, with whatever it asks."""

    async def ask(question: Question) -> QuestionAnswer:
        return answered(question)

    answers: tuple[QuestionAnswer, ...] = ()
    while True:
        from dataclasses import replace

        outcome = await tool.run(replace(context, ask=ask, answers=answers, call_id=f"call_{tool.own_name}"), arguments)
        if not isinstance(outcome, Asks):
            return outcome
        answers = (*answers, *map(answered, outcome.questions))


def answered(question: Question) -> QuestionAnswer:
    answer = check_answer(
        question, {name: value(about) for name, about, must in question.blanks if must and "default" not in about}
    )
    assert answer is None or isinstance(answer, dict), answer
    return QuestionAnswer(question=question, outcome="allowed", arguments=answer)


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit: one for each parameter."""
    return {name: value(about) for name, about in schema.get("properties", {}).items()}


def value(about: dict[str, Any]) -> Any:
    if "enum" in about:
        return about["enum"][0]
    if "const" in about:
        return about["const"]
    kinds = {"integer": 3, "number": 3, "boolean": True, "array": [], "object": {}, "null": None}
    return kinds.get(about.get("type", "string"), "text")


def say(*what: object) -> None:
    print(*what, file=sys.stderr)  # noqa: T201 - kept by the suite beside its verdict


if __name__ == "__main__":
    anyio.run(main)
