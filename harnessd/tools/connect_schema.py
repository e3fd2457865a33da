"""What is the model told of `connect`?"""

from harnessd.facts.message import JsonObject

DESCRIPTION = (
    "Look at, try, add or remove MCP servers, which bring tools. Use it when a task needs a tool that you do not have "
    "and a server could bring it, or when a server's tools are missing; not for calling a server's tools, which you do "
    "by their own names. `list` tells of each server how it is. `try` connects for a moment, tells which tools there "
    "are, and keeps nothing. `attach` writes the server into tools.json, `detach` takes it out; a person has to agree. "
    "Its tools can be called from the next turn on. Never write a secret, but ${NAME}; the operator keeps its value."
)
_PAIRS = {"type": "object", "maxProperties": 50, "additionalProperties": {"type": "string", "maxLength": 4000}}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "action": {"enum": ["list", "try", "attach", "detach"]},
        "name": {
            "type": "string",
            "pattern": "^[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*$",
            "maxLength": 40,
            "description": "how the server is called in tools.json, e.g. github",
        },
        "url": {
            "type": "string",
            "minLength": 1,
            "maxLength": 2000,
            "description": "of a server that is reached over HTTP, e.g. https://mcp.example.com/mcp",
        },
        "type": {"enum": ["http", "sse"], "description": "sse for servers that speak only the older transport"},
        "headers": {**_PAIRS, "description": 'sent to the url, e.g. {"Authorization": "Bearer ${EXAMPLE_TOKEN}"}'},
        "command": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1000,
            "description": "the program of a server that runs on this machine, e.g. uvx",
        },
        "args": {
            "type": "array",
            "maxItems": 100,
            "items": {"type": "string", "maxLength": 4000},
            "description": 'its arguments, one word each, e.g. ["mcp-server-git", "--repository", "work"]',
        },
        "env": {**_PAIRS, "description": 'its environment, e.g. {"API_KEY": "${EXAMPLE_KEY}"}'},
        "cwd": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1000,
            "description": "its folder from the home, e.g. work",
        },
        "tools": {
            "type": "array",
            "maxItems": 500,
            "items": {"type": "string", "minLength": 1, "maxLength": 200},
            "description": 'the only ones to offer, e.g. ["search"]; all of them if it is left out',
        },
    },
    "required": ["action"],
    "additionalProperties": False,
}
