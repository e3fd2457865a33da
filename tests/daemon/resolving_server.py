"""An MCP server made with the MCP SDK: its tools ask a person first, then append a line to a file."""

import sys
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import MCPServer, RequestStateSecurity
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

FILE = Path(sys.argv[1])
KEY = b"k" * 32
security = RequestStateSecurity(keys=[KEY]) if "--lasting" in sys.argv else None
server = MCPServer("asking", request_state_security=security)


class Size(BaseModel):
    cups: int = Field(ge=1, le=9)
    sugar: bool = False


class Milk(BaseModel):
    milk: str


def size() -> Elicit[Size]:
    return Elicit("How much?", Size)


def milk(size: Annotated[Size, Resolve(size)]) -> Elicit[Milk]:
    return Elicit(f"Which milk for {size.cups} cups?", Milk)


def _brewed(line: str) -> str:
    with FILE.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    return f"brewed {line}"


@server.tool()
def brew(tea: str, size: Annotated[Size, Resolve(size)]) -> str:
    """Asks one question."""
    return _brewed(f"{tea} {size.cups} {size.sugar}")


@server.tool()
def latte(tea: str, size: Annotated[Size, Resolve(size)], milk: Annotated[Milk, Resolve(milk)]) -> str:
    """Asks twice, one after the other."""
    return _brewed(f"{tea} {size.cups} {milk.milk}")


if __name__ == "__main__":
    server.run()
