"""P6: the worker process sees what the providers' clients read, and none of the operator's other secrets."""

import json
import sys
from pathlib import Path

import pytest
from asking import make_request, read_reply

from harnessd.models.assembler import Reply
from harnessd.models.models import Models
from harnessd.models.prefixes import PROVIDERS
from harnessd.models.worker_env import worker_env

SECRETS = ["GITHUB_TOKEN", "DATABASE_PASSWORD", "STRIPE_API_KEY", "NPM_TOKEN", "HARNESSD_TOKEN", "CLOUDFLARE_API_TOKEN",
           "SSH_AUTH_SOCK", "SMTP_PASSWORD", "API_KEY", "VERCEL_TOKEN", "EVIL_BASE_URL"]  # fmt: skip
NEEDED = ["PATH", "HOME", "https_proxy", "NO_PROXY", "SSL_CERT_FILE", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL",
          "AWS_PROFILE", "AWS_SECRET_ACCESS_KEY", "AZURE_API_VERSION", "GOOGLE_APPLICATION_CREDENTIALS",
          "HYPERBOLIC_API_KEY", "LAMBDA_API_KEY",
          *sorted({key for row in PROVIDERS.values() for key in row.keys})]  # fmt: skip
KNOWN = {"hyperbolic", "lambda_ai", "github_copilot", "cloudflare", "vercel_ai_gateway"}


@pytest.mark.parametrize("name", SECRETS)
def test_p6_a_secret_of_another_kind_is_absent(name: str) -> None:
    assert worker_env({name: "x"}, KNOWN) == {}


@pytest.mark.parametrize("name", NEEDED)
def test_what_a_client_reads_is_there(name: str) -> None:
    assert worker_env({name: "x"}, KNOWN) == {name: "x"}


FAKE = """
import json, os
class Delta: content, tool_calls, reasoning_content = json.dumps(sorted(os.environ)), None, None
class Choice: delta, finish_reason = Delta, "stop"
class Chunk: choices, model, usage = [Choice], "m", None
async def chunks(**given): yield Chunk
async def acompletion(**given): return chunks(**given)
"""


async def test_p6_the_process_itself_sees_no_more(tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text(FAKE)
    env = dict.fromkeys((*SECRETS, "ANTHROPIC_API_KEY", "HYPERBOLIC_API_KEY"), "x")
    models = Models({**env, "PYTHONPATH": str(tmp_path), "PATH": str(Path(sys.executable).parent)})
    reply = await read_reply(models, make_request("anthropic/x", api_base="http://127.0.0.1:9"))
    await models.close()
    assert isinstance(reply, Reply)
    seen = set(json.loads(reply.text))
    assert seen & set(SECRETS) == set()
    assert {"ANTHROPIC_API_KEY", "HYPERBOLIC_API_KEY"} <= seen
