"""Which prefix of a model's name takes which lane, at which address, with which key."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from harnessd.errors import KeyMissing, ModelUnavailable

OFFLINE = "offline"
AUTO = "auto"


@dataclass(frozen=True)
class Provider:
    """One row: `keys` are the environment variables that may hold the key, the first one is the one to name.

    `base_envs` may hold an address that replaces `base`. `path` is added to an address that has no path.
    """

    lane: Literal["direct", "litellm"]
    base: str = ""
    keys: tuple[str, ...] = ()
    base_envs: tuple[str, ...] = ()
    key_needed: bool = True
    path: str = "/v1"
    limit_field: str = "max_tokens"


@dataclass(frozen=True)
class Route:
    """Where a request goes: `base` ends without a slash; `wire_model` is the name the provider knows."""

    lane: Literal["direct", "litellm", "offline"]
    provider: str
    wire_model: str
    base: str = ""
    key: str = ""
    limit_field: str = "max_tokens"


def _direct(base: str, *keys: str, base_envs: tuple[str, ...] = (), limit_field: str = "max_tokens") -> Provider:
    return Provider("direct", base, keys, base_envs, limit_field=limit_field)


def _local(base: str, *keys: str, base_envs: tuple[str, ...] = ()) -> Provider:
    return Provider("direct", base, keys, base_envs, key_needed=False)


def _translated(*keys: str) -> Provider:
    return Provider("litellm", keys=keys, key_needed=bool(keys))


PROVIDERS: dict[str, Provider] = {
    "openai": _direct(
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        base_envs=("OPENAI_API_BASE", "OPENAI_BASE_URL"),
        limit_field="max_completion_tokens",
    ),
    "ollama": _local("http://localhost:11434/v1", "OLLAMA_API_KEY", base_envs=("OLLAMA_API_BASE", "OLLAMA_HOST")),
    "ollama_chat": _local("http://localhost:11434/v1", "OLLAMA_API_KEY", base_envs=("OLLAMA_API_BASE", "OLLAMA_HOST")),
    "vllm": _local("http://localhost:8000/v1", "HOSTED_VLLM_API_KEY", base_envs=("HOSTED_VLLM_API_BASE",)),
    "hosted_vllm": _local("http://localhost:8000/v1", "HOSTED_VLLM_API_KEY", base_envs=("HOSTED_VLLM_API_BASE",)),
    "llamacpp": _local("http://localhost:8080/v1", "LLAMACPP_API_KEY", base_envs=("LLAMACPP_API_BASE",)),
    "lm_studio": _local("http://localhost:1234/v1", "LM_STUDIO_API_KEY", base_envs=("LM_STUDIO_API_BASE",)),
    "openrouter": _direct("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", base_envs=("OPENROUTER_API_BASE",)),
    "deepseek": _direct("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", base_envs=("DEEPSEEK_API_BASE",)),
    "groq": _direct("https://api.groq.com/openai/v1", "GROQ_API_KEY", base_envs=("GROQ_API_BASE",)),
    "xai": _direct("https://api.x.ai/v1", "XAI_API_KEY", base_envs=("XAI_API_BASE",)),
    "moonshot": _direct("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", base_envs=("MOONSHOT_API_BASE",)),
    "together_ai": _direct(
        "https://api.together.xyz/v1",
        "TOGETHERAI_API_KEY",
        "TOGETHER_API_KEY",
        base_envs=("TOGETHERAI_API_BASE",),
    ),
    "anthropic": _translated("ANTHROPIC_API_KEY"),
    "gemini": _translated("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": _translated("MISTRAL_API_KEY"),
    "cohere": _translated("COHERE_API_KEY"),
    "cohere_chat": _translated("COHERE_API_KEY"),
    "azure": _translated("AZURE_API_KEY"),
    "azure_ai": _translated("AZURE_AI_API_KEY"),
    "perplexity": _translated("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "fireworks_ai": _translated("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
    "cerebras": _translated("CEREBRAS_API_KEY"),
    "sambanova": _translated("SAMBANOVA_API_KEY"),
    "nvidia_nim": _translated("NVIDIA_NIM_API_KEY"),
    "replicate": _translated("REPLICATE_API_KEY"),
    "huggingface": _translated("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    "ai21": _translated("AI21_API_KEY"),
    "deepinfra": _translated("DEEPINFRA_API_KEY"),
    "novita": _translated("NOVITA_API_KEY"),
    "dashscope": _translated("DASHSCOPE_API_KEY"),
    "zai": _translated("ZAI_API_KEY"),
    "minimax": _translated("MINIMAX_API_KEY"),
    "volcengine": _translated("VOLCENGINE_API_KEY", "ARK_API_KEY"),
    # These find their credentials by means of their own (profiles, files, metadata services).
    "bedrock": _translated(),
    "sagemaker": _translated(),
    "vertex_ai": _translated(),
    "watsonx": _translated(),
    "databricks": _translated(),
    "snowflake": _translated(),
    "github_copilot": _translated(),
    "litellm_proxy": _translated(),
}

# Names people write without a prefix.
_BARE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(gpt-|chatgpt-|o[1-9](-|$))"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "gemini"),
)

# The first key that is set decides what `auto` takes.
_BY_KEY: tuple[tuple[str, str], ...] = (
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-5-mini"),
    ("GEMINI_API_KEY", "gemini/gemini-2.5-flash"),
    ("OPENROUTER_API_KEY", "openrouter/openrouter/auto"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-chat"),
    ("MISTRAL_API_KEY", "mistral/mistral-large-latest"),
    ("GROQ_API_KEY", "groq/llama-3.3-70b-versatile"),
    ("XAI_API_KEY", "xai/grok-4"),
)


def find_route(
    model: str,
    env: Mapping[str, str],
    api_base: str | None = None,
    is_provider: Callable[[str], bool] = lambda _: False,
) -> Route | ModelUnavailable:
    """The way to `model`, or why there is none and what would help.

    `is_provider` is asked about a prefix that the table does not hold (litellm knows more of them).
    """
    name = model.strip()
    if name == OFFLINE or name.startswith(OFFLINE + "/"):
        return Route("offline", OFFLINE, name)
    if "://" in name:
        # Some providers' clients send the key to whatever address stands in the name, and a home may name a model.
        return ModelUnavailable(
            f"the model {model!r} is an address",
            hint="name the model as provider/name; the operator sets the address: apiBase in harnessd.yaml",
        )
    prefix, slash, rest = name.partition("/")
    if not slash:
        prefix, rest = _bare_provider(name, api_base), name
    provider = PROVIDERS.get(prefix)
    if provider is None and slash and is_provider(prefix):
        provider = _translated()
    if provider is None or not rest:
        return ModelUnavailable(
            f"the model {model!r} is not known",
            hint="write it as provider/name, e.g. openai/gpt-5-mini, ollama/qwen3 or "
            "anthropic/claude-sonnet-4-5; `offline` needs no key and no network",
        )
    return _route(prefix, provider, rest, env, api_base)


def is_offline(model: str) -> bool:
    """Whether the built-in offline model answers to that name."""
    return model == OFFLINE or model.startswith(OFFLINE + "/")


def is_local(model: str) -> bool:
    """Whether the prefix names a server of one's own (Ollama, vLLM, llama.cpp …)."""
    provider = PROVIDERS.get(model.partition("/")[0])
    return provider is not None and provider.lane == "direct" and not provider.key_needed


async def resolve_auto(
    env: Mapping[str, str],
    probe: Callable[[str], Awaitable[str | None]],
    *,
    home: str | None = None,
    operator: str | None = None,
) -> str:
    """The model that `auto` means: the home's, the operator's, by a key, a local Ollama, else `offline`.

    `probe` gets Ollama's address (without `/v1`) and returns the name of a model it has, or None.
    """
    for given in (home, operator, env.get("HARNESSD_MODEL")):
        if given and given.strip() and given.strip() != AUTO:
            return given.strip()
    for key, model in _BY_KEY:
        if env.get(key):
            return model
    base = _base("ollama", PROVIDERS["ollama"], env, None)
    found = await probe(base.removesuffix("/v1"))
    return f"ollama/{found}" if found else OFFLINE


def _bare_provider(name: str, api_base: str | None) -> str:
    for pattern, provider in _BARE:
        if pattern.match(name):
            return provider
    return "openai" if api_base else ""


def _route(
    prefix: str, provider: Provider, rest: str, env: Mapping[str, str], api_base: str | None
) -> Route | ModelUnavailable:
    key = next((env[name] for name in provider.keys if env.get(name)), "")
    base = _base(prefix, provider, env, api_base)
    # An address of one's own may need no key; the provider's own always does.
    if provider.key_needed and not key and base == provider.base and not api_base:
        return KeyMissing(
            f"{prefix} needs a key, and {provider.keys[0]} is not set",
            hint=f"export {provider.keys[0]}=…, or choose another model (`offline` needs none)",
        )
    own_address = base != provider.base
    return Route(
        lane=provider.lane,
        provider=prefix,
        wire_model=rest if provider.lane == "direct" else f"{prefix}/{rest}",
        base=base,
        key=key,
        limit_field="max_tokens" if own_address else provider.limit_field,
    )


def _base(prefix: str, provider: Provider, env: Mapping[str, str], api_base: str | None) -> str:
    given = api_base or next((env[name] for name in provider.base_envs if env.get(name)), "")
    if not given:
        return provider.base
    if provider.lane == "litellm":
        return given.rstrip("/")
    if "://" not in given:
        given = f"http://{given}"
    if prefix.startswith("ollama"):
        given = given.replace("://0.0.0.0", "://localhost")
    scheme, _, rest = given.rstrip("/").partition("://")
    host, slash, path = rest.partition("/")
    if prefix.startswith("ollama") and ":" not in host:
        host += ":11434"
    return f"{scheme}://{host}{slash}{path}" if path else f"{scheme}://{host}{provider.path}"
