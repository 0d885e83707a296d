"""Services, as OpenFn's Lightning calls them: POST /services/{w} and /services/{w}/stream (contract: job-chat, 1).

adapter   the protocol's functions: decode, response_head, stream_encoder, encode_response, encode_error; the catalog
request   parse and validate a payload
response  reply and error documents
stream    events in, server-sent events out
socket    messages of the WebSocket
"""
