"""Wire protocols: a request in, a Call out; events in, bytes out. Pure: nothing here starts, stores or waits.

Every adapter is a plain module with the functions of base.Adapter, in that order. Shared pieces stand beside them:

    accept      which form of an answer the caller wants (RFC 9110)
    agenta      what /inspect, /invoke, /run and /test have in common: calls, headers, outputs, errors
    forms       the two forms in which their bodies say a call
    records     the stream records of /invoke
    sse         server-sent events, written and read
    upstream    what calling somebody else's /invoke or /run has in common
"""
