"""OpenAI's Responses, served and called: POST /v1/responses, /responses and /invocations, and what is stored of them.

adapter        the protocol's functions: decode, response_head, stream_encoder, encode_response, encode_error
request        parse a request body into a Call and a ResponsesRequest
output         output items and the response object
stream         events in, server-sent events out
store          stored responses: retrieve, resume, delete
item_pages     lists of stored items (input_items, conversation items)
conversations  the Conversations API
client         call another server's Responses API
"""
