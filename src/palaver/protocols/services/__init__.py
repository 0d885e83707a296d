"""Services, as OpenFn's Lightning calls them: POST /services/{w} and /services/{w}/stream.

A payload in, a document out; a stream ends with the same document.

    adapter    the protocol's functions, and the catalog of services
    request    parse and validate a payload
    response   reply and error documents, and the stream of server-sent events
    socket     messages of the WebSocket
"""
