"""Model providers over plain HTTP, as configured in palaver.toml.

    anthropic    Anthropic's Messages API
    client       requests: key, timeout and retries
    config       `[providers.name]` in the settings
    model        a provider's model, for verdicts and embeddings
    openai       OpenAI's Chat Completions and embeddings APIs, which many providers implement

A wire API is a module with the functions of `ProviderProtocol`; it builds and reads bodies, and sends nothing.
"""
