"""One WebSocket per browser tab that carries all of its requests: a browser opens at most six connections to a host.

Modules:

    socket        the socket: admission, its open requests, its end
    envelopes     messages on the socket: requests in, response chunks and change notices out
    outbox        pending messages, of which responses take turns
"""
