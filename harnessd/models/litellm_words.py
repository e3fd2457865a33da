"""What did the provider itself say? Its words, out of those that litellm puts around them."""

import ast
import re

_ADDED_BEFORE = re.compile(r"^\s*(?:litellm\.\w+|\w+(?:Exception|Error)):?\s*(?:-\s*)?:?\s+")
_ADDED_AFTER = re.compile(
    r"(?:\.?\s*Handle with `litellm\.\w+`\.?"
    r"|\s*LiteLLM Retried: \d+ times(?:, LiteLLM Max Retries: \d+)?"
    r"|\s*\(\w+(?:Error|Exception|Timeout)\))\s*$"
)
_BYTES = re.compile(r"""^b(['"]).*\1$""", re.DOTALL)


def provider_words(message: str) -> str:
    """The provider's sentence or body (often JSON) within an error message of litellm's; at least the message."""
    text = message.partition(" Original exception: ")[0].strip()
    while (shorter := _ADDED_AFTER.sub("", _ADDED_BEFORE.sub("", text)).strip()) != text and shorter:
        text = shorter
    if _BYTES.match(text):
        # litellm shows some bodies as Python writes bytes.
        try:
            return bytes(ast.literal_eval(text)).decode("utf-8", "replace")
        except (ValueError, SyntaxError):
            return text[2:-1]
    return text if text.strip("-. ") else message
