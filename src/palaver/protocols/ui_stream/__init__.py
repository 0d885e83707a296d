"""The AI SDK's UI message stream: POST /{w}/api/chat.

adapter  the protocol's functions: decode, response_head, stream_encoder, encode_response, encode_error
request  what the encoder needs to know of the request
encoder  events in, UI parts or a whole UI message out
"""
