"""Wire protocols: a request in, a Call out; events in, bytes out. Pure: nothing here starts, stores or waits.

An adapter is a module with the functions of `base.Adapter`, in that order.

    base              Adapter, HttpRequest, HttpResponse, content negotiation
    responses         OpenAI's Responses, also as MLflow's agents use it
    chat_completions  OpenAI's Chat Completions
    ui_stream         the AI SDK's UI message stream
    agenta            /inspect, /invoke, /run and /test
    services          /services/{w}
    history_merge     merge a client's messages into a stored history
    openai            error bodies and typed fields of OpenAI-shaped protocols
    sse               server-sent events, encoded and decoded
    client_base       code shared by the protocol clients
"""
