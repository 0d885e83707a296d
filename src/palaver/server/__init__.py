"""The ASGI application: every protocol, our own REST API, and the page.

app         one request: find the route, guard, answer; the outermost function
routes      which path means what
guards      who may ask: Host, Origin, media type, sizes
exchange    one request and its answer: reading the body, sending, what the log will say
stream      a run answered to whoever started it; pulse looks after all streams once a second
status      the one table from error codes to HTTP statuses
settings    everything that can be set, and where each value came from
serve       the process: socket, uvicorn, signals; http, its connections
api/        REST under /api, by Litestar; openapi joins its document with the protocols'
home        the plain page at /; metrics; mount makes an application to put elsewhere
"""
