"""Does a text hold a secret that must not enter git, a journal or a log?"""

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass

# Shapes that their issuers publish so that scanners can find them. The groups keep the name of the kind.
_SHAPES = tuple(
    (kind, re.compile(shape))
    for kind, shape in (
        ("private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
        ("AWS access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
        ("AWS secret key", r"(?i)aws.{0,20}secret.{0,20}?[=:\s\"'][A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"),
        ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{22,255})\b"),
        ("GitLab token", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_\-]{20,}"),
        ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("Slack token", r"\bxapp-\d-[A-Z0-9]+-\d+-[A-Za-z0-9]{10,}"),
        ("Slack webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{40,}"),
        ("Anthropic key", r"\bsk-ant-[A-Za-z0-9_\-]{16,}"),
        ("OpenAI key", r"\bsk-(?!ant-)(?=[A-Za-z_\-]{0,80}\d)[A-Za-z0-9_\-]{20,}"),
        ("Google API key", r"\bAIza[A-Za-z0-9_\-]{35}(?![A-Za-z0-9_\-])"),
        ("Google OAuth secret", r"\bGOCSPX-[A-Za-z0-9_\-]{28}"),
        ("Google OAuth token", r"\bya29\.[A-Za-z0-9_\-]{20,}"),
        ("Stripe key", r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{24,}"),
        ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}\b"),
        ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("PyPI token", r"\bpypi-AgE[A-Za-z0-9_\-]{40,}"),
        ("SendGrid key", r"\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"),
        ("Twilio key", r"\bSK[0-9a-f]{32}\b"),
        ("Telegram bot token", r"\b\d{8,10}:AA[A-Za-z0-9_\-]{33}\b"),
        ("Discord token", r"\b[MNO][A-Za-z0-9_\-]{23,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,}"),
        ("Groq key", r"\bgsk_[A-Za-z0-9]{40,}\b"),
        ("xAI key", r"\bxai-[A-Za-z0-9]{60,}\b"),
        ("DigitalOcean token", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
        ("age secret key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
        ("JSON web token", r"\beyJ[A-Za-z0-9_\-]{8,2000}\.eyJ[A-Za-z0-9_\-]{8,4000}\.[A-Za-z0-9_\-]{8,}"),
        (
            "password in a URL",
            r"\b[a-z][a-z0-9+.\-]{0,30}://[^\s/:@\"'${}<>]{0,200}:[^\s/:@\"'${}<>*]{3,200}@[\w\[]",
        ),
    )
)
SHORTEST = 6
"""Characters of the shortest value of the secret store that is looked for; shorter ones occur by chance."""


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """Where a secret stands (`line` from 1) and of what kind it is; never the secret itself."""

    line: int
    kind: str


def find_secrets(text: str, known_values: Iterable[str] = ()) -> tuple[SecretFinding, ...]:
    """Secrets in `text`: known shapes of tokens, and any of `known_values` (those of at least 6
    characters).
    """
    found: list[tuple[int, str]] = []
    for kind, shape in _SHAPES:
        found += [(match.start(), kind) for match in shape.finditer(text)]
    for value in known_values:
        if len(value) < SHORTEST:
            continue
        position = text.find(value)
        while position >= 0:
            found.append((position, "value of the secret store"))
            position = text.find(value, position + len(value))
    if not found:
        return ()
    line_starts = [0] + [match.end() for match in re.finditer("\n", text)]
    located = {(bisect.bisect_right(line_starts, position), kind) for position, kind in found}
    return tuple(SecretFinding(line, kind) for line, kind in sorted(located))
