"""Providers of models, over plain HTTP: whom the operator set up in palaver.toml, and what each of them speaks.

    declared    what `[providers.name]` may say
    openai      OpenAI's Chat Completions and embeddings, which many others speak, too
    anthropic   Anthropic's Messages
    asking      the request itself: its key, its time, and when it is tried again
    models      a provider's model, as a judge or as what embeds

A wire protocol is a module with the same names in the same order; it makes bodies and reads them, and sends nothing.
"""
