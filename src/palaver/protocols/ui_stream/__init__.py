"""The AI SDK's UI message stream: POST /{w}/api/chat.

protocols/agenta uses it for /invoke, which can answer with UI messages.

    adapter    the protocol's functions
    encoder    events to UI parts, or to a complete UI message
    request    what the encoder needs to know of the request
"""
