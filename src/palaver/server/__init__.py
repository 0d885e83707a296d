"""The ASGI application: every protocol, the REST API and the web page; and the processes that serve it.

Modules:

    app                    the ASGI application: routes, guards and answers a request
    runtime                what runs workflows in a process: engine, recording, tracing, background loops
    routing                the table of paths
    scopes                 the scope that each route requires
    security               checks before routing: Host, Origin, sizes, media type, trusted proxies
    auth                   credentials, sessions and callers
    rate_limit             requests per minute, runs and streams at once, failed logins
    request                one HTTP request and its response
    error_responses        the table from error codes to HTTP statuses
    calls                  a call of a workflow, from its body to the end of its answer
    idempotency            Idempotency-Key
    conversation_history   what a call continues: an earlier response, a conversation, a thread
    turn_lock              one turn at a time per conversation: reject, queue or interrupt
    variant_resolver       the parameters of a variant
    thread_runner          runs that the REST API starts in a thread
    file_references        stored files that a call refers to
    streaming              a run, streamed to the client that started it
    response_ends          the end of long responses: disconnect, invalid credential, shutdown
    replay                 a run's log, sent to any other reader: resumed, replayed and background streams
    keep_alive             keep-alives of replayed streams
    obfuscation            padding of stream frames
    chat_streams           resume and stop the streams of AI SDK chats
    stored_responses       stored responses and conversations (OpenAI)
    endpoints              /health, /ready, /version, /metrics, /v1/models, /inspect
    health                 /status: the database's and the workflows' own health checks
    services               /services and its WebSocket (job chat)
    tab_socket             one WebSocket for all requests of a browser tab
    api                    the REST API under /api
    openapi                /openapi.json
    snippets               example programs that call a workflow
    web                    the built web page and its assets
    docs_site              the documentation site at /docs
    static_files           files of a built folder, with encodings, ETags and security headers
    otlp_receiver          POST /v1/traces and /v1/logs
    otlp_exporter          export of our own spans
    redaction              what is removed before anything is stored
    notifications          notices between processes and to open pages
    connection_sync        connected services, in step with the database
    evaluation             runner, live scorer, planner and evaluator context
    metrics                Prometheus metrics
    logging_setup          log handlers and the access log
    settings               every setting, and where its value came from
    exposure               no public address without an API key
    serve                  the process: listening socket, uvicorn, signals
    uvicorn_protocols      HTTP and WebSocket connections
    supervisor             several worker processes on one socket, and --reload
"""
