"""Agenta's protocol, served and called: /inspect, /invoke, /run and /test.

Flat bodies and envelopes are parsed into the same Call.

    content_negotiation  JSON, JSON lines or server-sent events, from the Accept header
    inspect              describe a workflow
    invoke               adapter and client of POST /{w}/invoke
    request              parse a request body into a Call and an AgentaRequest
    response             headers, outputs, error documents, and the stream records of /invoke
    run                  adapter and client of POST /{w}/run and /{w}/test
"""
