"""Which variables does the worker process get? What the providers' clients read, and nothing else.

litellm is a large body of foreign code, and our environment holds the operator's whole secret store.
"""

from collections.abc import Collection, Mapping

from harnessd.models.prefixes import PROVIDERS

_SYSTEM = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
})  # fmt: skip
_SYSTEM_FAMILIES = ("LC_", "SSL_", "XDG_")

_FAMILIES = (
    "AWS_",
    "AZURE_",
    "DATABRICKS_",
    "GITHUB_COPILOT_",
    "GOOGLE_",
    "LITELLM_PROXY_",
    "OCI_",
    "SNOWFLAKE_",
    "VERTEXAI_",
    "VERTEX_",
    "WATSONX_",
    "WML_",
    "WX_",
)
"""Clients that find their credentials by means of their own read many names."""

_ENDINGS = ("_API_KEY", "_API_BASE", "_BASE_URL", "_API_VERSION")


def worker_env(env: Mapping[str, str], providers: Collection[str]) -> dict[str, str]:
    """The part of `env` that the worker needs; `providers` are the names that litellm knows beside our own table."""
    named = {name for row in PROVIDERS.values() for name in (*row.keys, *row.base_envs)}
    words = {_first_word(provider) for provider in (*PROVIDERS, *providers)}

    def needed(name: str) -> bool:
        if name in named or name.upper() in _SYSTEM or name.startswith((*_SYSTEM_FAMILIES, *_FAMILIES)):
            return True
        return name.endswith(_ENDINGS) and _first_word(name) in words

    return {name: value for name, value in env.items() if needed(name)}


def _first_word(name: str) -> str:
    return name.replace("-", "_").partition("_")[0].lower()
