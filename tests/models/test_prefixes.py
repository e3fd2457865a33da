"""Names of models: which lane, address and key each takes, and what is said when there is none."""

import asyncio

import orjson
import pytest

from harnessd.errors import ModelUnavailable
from harnessd.models.models import Models
from harnessd.models.ollama import find_ollama_model
from harnessd.models.prefixes import PROVIDERS, Route, find_route, resolve_auto

ROUTES = [
    ("openai/gpt-5-mini", {"OPENAI_API_KEY": "k"}, None, "direct", "gpt-5-mini", "https://api.openai.com/v1"),
    ("gpt-5-mini", {"OPENAI_API_KEY": "k"}, None, "direct", "gpt-5-mini", "https://api.openai.com/v1"),
    ("o3", {"OPENAI_API_KEY": "k"}, None, "direct", "o3", "https://api.openai.com/v1"),
    ("openai/x", {"OPENAI_API_BASE": "http://h:1/v1/"}, None, "direct", "x", "http://h:1/v1"),
    ("openai/x", {}, "http://h:1", "direct", "x", "http://h:1/v1"),
    ("x", {}, "http://h:1/api", "direct", "x", "http://h:1/api"),
    ("ollama/qwen3:8b", {}, None, "direct", "qwen3:8b", "http://localhost:11434/v1"),
    ("ollama_chat/qwen3", {"OLLAMA_HOST": "0.0.0.0"}, None, "direct", "qwen3", "http://localhost:11434/v1"),
    ("ollama/qwen3", {"OLLAMA_API_BASE": "http://gpu:1234"}, None, "direct", "qwen3", "http://gpu:1234/v1"),
    ("vllm/m", {}, None, "direct", "m", "http://localhost:8000/v1"),
    ("llamacpp/m", {}, None, "direct", "m", "http://localhost:8080/v1"),
    ("openrouter/a/b", {"OPENROUTER_API_KEY": "k"}, None, "direct", "a/b", "https://openrouter.ai/api/v1"),
    (
        "deepseek/deepseek-chat",
        {"DEEPSEEK_API_KEY": "k"},
        None,
        "direct",
        "deepseek-chat",
        "https://api.deepseek.com/v1",
    ),
    ("anthropic/claude-x", {"ANTHROPIC_API_KEY": "k"}, None, "litellm", "anthropic/claude-x", ""),
    ("claude-x", {"ANTHROPIC_API_KEY": "k"}, None, "litellm", "anthropic/claude-x", ""),
    ("anthropic/claude-x", {}, "http://h:1/", "litellm", "anthropic/claude-x", "http://h:1"),
    ("bedrock/x", {}, None, "litellm", "bedrock/x", ""),
    ("offline", {}, None, "offline", "offline", ""),
]


@pytest.mark.parametrize(("model", "env", "api_base", "lane", "wire", "base"), ROUTES)
def test_each_name_takes_its_lane(model, env, api_base, lane, wire, base) -> None:
    route = find_route(model, env, api_base)
    assert isinstance(route, Route)
    assert (route.lane, route.wire_model, route.base) == (lane, wire, base)


@pytest.mark.parametrize("prefix", [name for name, row in PROVIDERS.items() if row.key_needed])
def test_a_missing_key_names_its_variable(prefix) -> None:
    missing = find_route(f"{prefix}/x", {})
    assert isinstance(missing, ModelUnavailable)
    assert PROVIDERS[prefix].keys[0] in str(missing)
    found = find_route(f"{prefix}/x", {PROVIDERS[prefix].keys[-1]: "k"})
    assert isinstance(found, Route)
    assert found.key == "k"


@pytest.mark.parametrize("model", ["", " ", "nonsense", "nobody/x", "openai/", "/x", "../x"])
def test_an_unknown_name_says_how_to_write_one(model) -> None:
    missing = Models({}).check(model)
    assert missing is not None
    assert "provider/name" in str(missing)


def test_a_provider_that_only_litellm_knows_is_let_through() -> None:
    assert Models({}).check("hyperbolic/x") is None


@pytest.mark.parametrize(
    ("home", "operator", "env", "ollama", "model"),
    [
        ("a/b", "c/d", {"OPENAI_API_KEY": "k"}, "q", "a/b"),
        ("auto", "c/d", {}, "q", "c/d"),
        (None, None, {"HARNESSD_MODEL": "e/f"}, "q", "e/f"),
        (None, None, {"OPENAI_API_KEY": "k"}, "q", "openai/gpt-5-mini"),
        (None, None, {"ANTHROPIC_API_KEY": "k"}, None, "anthropic/claude-sonnet-4-5"),
        (None, "auto", {}, "qwen3:8b", "ollama/qwen3:8b"),
        (None, None, {}, None, "offline"),
    ],
)
async def test_auto_takes_what_is_configured(home, operator, env, ollama, model) -> None:
    async def probe(base: str) -> str | None:
        assert base == "http://localhost:11434"
        return ollama

    assert await resolve_auto(env, probe, home=home, operator=operator) == model


ANSWERS = [
    (orjson.dumps({"models": [{"name": "qwen3:8b"}, {"name": "b"}]}), "qwen3:8b"),
    (b'{"models":[]}', None),
    (b"<html>", None),
    (b"[]", None),
    (b"", None),
]


@pytest.mark.parametrize(("body", "model"), ANSWERS)
async def test_a_local_ollama_is_found(body, model) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"/api/tags" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        assert await find_ollama_model(f"http://{host}:{port}") == model
    assert await find_ollama_model(f"http://{host}:{port}") is None


@pytest.mark.parametrize("prefix", ["", *PROVIDERS, "custom", "oobabooga"])
@pytest.mark.parametrize("address", ["https://evil.example/v1", "http://evil.example", "HTTPS://evil.example"])
def test_p6_a_name_that_is_an_address_never_leads_a_key_there(prefix: str, address: str) -> None:
    """litellm's Hugging Face client, for one, takes an address in the place of a model and sends it the key."""
    env = {name: "key" for provider in PROVIDERS.values() for name in provider.keys}
    refused = find_route(f"{prefix}/{address}" if prefix else address, env, is_provider=lambda _: True)
    assert isinstance(refused, ModelUnavailable)
    assert refused.hint
