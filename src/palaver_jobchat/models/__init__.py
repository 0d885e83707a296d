"""The models that answer prompts. `create_model` makes the one that the settings name.

Modules:

    base        the request, the events of a response, and the Model protocol
    anthropic   Claude, through Anthropic's SDK
    openai      any OpenAI-compatible endpoint, through OpenAI's SDK
    client      what both share: one SDK client per event loop, and retries
    errors      provider errors as failures of the run
    scripted    plays a script from the request, without a network
    rehearsal   answers from a script that suits the question, without a key
"""

from typing import assert_never

from palaver import PalaverError
from palaver_jobchat.models.base import Model
from palaver_jobchat.models.client import RetryPolicy
from palaver_jobchat.settings import Settings

MISSING_PACKAGES = "Job Chat requires additional packages. Install them with: pip install 'palaver[jobchat]'"


def create_model(settings: Settings, *, api_key: str | None = None, base_url: str | None = None) -> Model:
    """Return the model that the settings name, importing only its provider's SDK.

    `api_key` and `base_url` replace Anthropic's key and address from the environment.
    """
    retry_policy = RetryPolicy(retries=settings.retries, timeout_s=settings.timeout)
    try:
        match settings.provider:
            case "anthropic":
                from palaver_jobchat.models.anthropic import Anthropic

                return Anthropic(
                    model=settings.model,
                    max_tokens=settings.max_tokens,
                    thinking=settings.thinking,
                    retry_policy=retry_policy,
                    api_key=api_key,
                    base_url=base_url,
                )
            case "openai":
                from palaver_jobchat.models.openai import OpenAI

                return OpenAI(
                    model=settings.model,
                    max_tokens=settings.max_tokens,
                    retry_policy=retry_policy,
                    api_key=settings.api_key,
                    base_url=settings.base_url,
                    anthropic_url=base_url,
                )
            case "scripted":
                from palaver_jobchat.models.scripted import ScriptedModel

                return ScriptedModel(timeout=settings.timeout)
            case _:
                assert_never(settings.provider)
    except ImportError as error:
        raise PalaverError(MISSING_PACKAGES) from error
