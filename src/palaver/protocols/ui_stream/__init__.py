"""The AI SDK's UI message stream: POST /{w}/api/chat.

protocols/agenta uses it for /invoke, which can answer with UI messages.

    adapter    the protocol's functions, and the encoders of UI parts and messages
    request    what the adapter needs to know of the request
"""
