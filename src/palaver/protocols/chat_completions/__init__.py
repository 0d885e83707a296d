"""Chat Completions, served and called: POST /v1/chat/completions, GET /v1/models.

adapter  the protocol's functions: decode, response_head, stream_encoder, encode_response, encode_error
request  parse and validate options and messages
stream   events in, chunks out
models   the list of models
client   call another server's Chat Completions API
"""
