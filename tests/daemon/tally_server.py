"""An MCP server whose one tool appends a line to a file: an effect that can be counted."""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("tally")
FILE = Path(sys.argv[1])


@server.tool()
def add(line: str) -> str:
    """Appends a line."""
    with FILE.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    return f"added {line}"


if __name__ == "__main__":
    server.run()
