"""What the tests of models share: requests, and reading a stream to its end."""

from contextlib import aclosing
from typing import Any

from harnessd.facts.message import TextPart, UserMessage
from harnessd.models.assembler import Reply
from harnessd.models.chunk import ModelFailure
from harnessd.models.models import Models
from harnessd.models.request import ModelRequest, ToolSpec

READ = ToolSpec(
    name="read",
    description="Read a file.",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def user(text: str) -> UserMessage:
    return UserMessage(id="msg", parts=(TextPart(text=text),))


def make_request(model: str = "openai/scripted", text: str = "Hi", **given: Any) -> ModelRequest:
    return ModelRequest(**{"model": model, "system": "Be brief.", "messages": (user(text),), "tools": (READ,), **given})


async def read_reply(models: Models, request: ModelRequest) -> Reply | ModelFailure:
    assembler = models.assembler(request)
    async with aclosing(models.stream(request)) as stream:
        async for chunk in stream:
            assembler.feed(chunk)
    return assembler.finish()
