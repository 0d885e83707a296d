"""Invalid provider settings, and those that would expose a secret, are refused."""

import pytest

from palaver.errors import SettingsError
from palaver.evaluation.providers.config import Provider, check_providers, has_model

URL = "https://api.example.com/v1"


@pytest.mark.parametrize("url", [URL, "http://127.0.0.1:8000", "https://[::1]/v1/"])
def test_valid_providers_are_accepted(url: str) -> None:
    check_providers({"my-provider.2": Provider(kind="openai", base_url=url, key="env:KEY")})
    check_providers({"b": Provider(kind="anthropic", base_url=url)})


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a" * 65, "ä"])
def test_an_invalid_provider_name_is_rejected(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_providers({name: Provider(kind="openai", base_url=URL)})

    message = f"Invalid provider name {name!r}: use at most 64 letters, digits, '_', '-' and '.'."
    assert caught.value.message == message


@pytest.mark.parametrize("key", ["sk-secret", "env:", ""])
def test_a_key_that_is_not_an_environment_variable_reference_is_rejected(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_providers({"mine": Provider(kind="openai", base_url=URL, key=key)})

    assert caught.value.message == """Provider 'mine': key must name an environment variable: key = "env:NAME"."""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "file:///etc/passwd",
        "https://",
        "https://me:secret@a.com",
        f"{URL}?key=1",
        f"{URL}#1",
        "http://[1",
    ],
)
def test_an_invalid_url_or_one_with_a_secret_is_rejected_and_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_providers({"mine": Provider(kind="openai", base_url=url)})

    message = "Provider 'mine': base_url must be http://… or https://…, without credentials."
    assert caught.value.message == message


def test_only_models_that_match_the_patterns_are_available() -> None:
    provider = Provider(kind="openai", base_url=URL, models=("gpt-4o*", "o3"))

    names = ["gpt-4o", "gpt-4o-mini", "o3", "o3-mini", "GPT-4o", "gpt-4"]
    assert [model for model in names if has_model(provider, model)] == ["gpt-4o", "gpt-4o-mini", "o3"]
