"""Chat Completions, served and called: POST /v1/chat/completions, GET /v1/models.

A run is one completion with one choice.

    adapter    the protocol's functions, its stream of chunks, and the list of models
    client     call another server's Chat Completions API
    request    parse and validate options and messages
"""
