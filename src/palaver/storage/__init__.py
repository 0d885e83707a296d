"""Persistence in SQLite or PostgreSQL.

    schema           metadata, column types, text normalization
    tables           all tables that no package below defines
    database         the `Database` interface, `open_database`, `LazyDatabase`
    sqlite           SQLite: a writer thread with group commit, reader threads
    postgres         PostgreSQL: a connection pool, a listener for notifications
    driver_errors    translation of driver errors, query timeouts
    notifications    change notifications within and between processes
    redaction        the hook that redacts content before it is stored
    pagination       keyset pagination with opaque cursors
    migrations       schema upgrades and Alembic scripts
    paths            default paths, lock files, file permissions
    file_lock        lock files of servers and workers
    backup           backup and restore of SQLite databases
    diagnostics      read-only inspection of a database
    runs             runs and their event logs
    run_log          recording of new, growing and ended runs, and the conversation a run saw
    background_runs  background runs, and the processes that run them
    idempotency      responses to requests with an Idempotency-Key
    api_keys         API keys, login sessions, server secrets
    projects         projects
    files            uploaded files and references to them
    variants         variants of workflows and their versions
    boards           playground boards and their runs
    connections      connected services
    feedback         ratings of answers
    saved_views      saved views of the web page
    erasure          erasure of the data of a user or session
    retention        deletion of old runs and files
    threads          conversations as trees of messages
    spans            spans and traces
    testsets         test sets, revisions and rows
    evaluations      evaluations, human reviews, live evaluators

Repository modules hold synchronous functions that take a connection first, do nothing but talk to the database (they
may be retried), and work on both engines.
"""
