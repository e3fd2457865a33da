"""L3: what a person is told of a failure in the worker's lane are the provider's own words."""

import pytest

from harnessd.models.litellm_words import provider_words

TOLD = [
    ("litellm.AuthError: AnthropicException - b'{\"error\": {\"message\": \"bad key\"}}' (AuthError)",
     '{"error": {"message": "bad key"}}'),
    ("litellm.BadRequestError: VertexAIException BadRequestError - b'{\"message\": \"caf\\xc3\\xa9\"}'",
     '{"message": "café"}'),
    ("litellm.InternalServerError: AnthropicException - oops. Handle with `litellm.InternalServerError`.", "oops"),
    ("litellm.RateLimitError: RateLimitError: OpenAIException - slow down LiteLLM Retried: 2 times", "slow down"),
    ("litellm.MidStreamFallbackError: litellm.APIConnectionError: AnthropicException - peer closed"
     " Original exception: APIConnectionError: litellm.APIConnectionError: AnthropicException - peer closed",
     "peer closed"),
    ("litellm.BadRequestError: LLM Provider NOT provided. (BadRequestError)", "LLM Provider NOT provided."),
    ("the model is too busy", "the model is too busy"),
    ("b'cut in the mid", "b'cut in the mid"),
    ("litellm.Timeout: AnthropicException - ", "litellm.Timeout: AnthropicException - "),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("message", "told"), TOLD)
def test_l3_only_the_providers_words_are_told(message: str, told: str) -> None:
    assert provider_words(message) == told
