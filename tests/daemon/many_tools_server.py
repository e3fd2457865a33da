"""An MCP server with more tools than an agent is offered at once."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("many")


def _add(number: int) -> None:
    @server.tool(name=f"tool_{number}", description=f"Does the thing number {number}.")
    def tool() -> str:
        return str(number)


for each in range(20):
    _add(each)

if __name__ == "__main__":
    server.run()
