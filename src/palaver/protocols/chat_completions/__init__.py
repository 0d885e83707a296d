"""Chat Completions, served and called: POST /v1/chat/completions, GET /v1/models.

A run is one completion with one choice.

    adapter    the protocol's functions, and its stream of chunks
    client     call another server's Chat Completions API
    models     GET /v1/models
    request    parse and validate options and messages
"""
