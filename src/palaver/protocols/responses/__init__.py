"""OpenAI's Responses, served and called: POST /v1/responses, /responses and /invocations, and what is stored of them.

One protocol with two profiles, chosen by the route.

    adapter          the protocol's functions, and its stream of server-sent events
    client           call another server's Responses API
    conversations    the Conversations API (/v1/conversations)
    request          parse a request body into a Call and a ResponsesRequest
    response_object  output items and the response object
    store            stored responses and lists of items
"""
