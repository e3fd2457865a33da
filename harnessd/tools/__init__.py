"""Floor 4, tools: what an agent can do, and the eight stages every call goes through."""
