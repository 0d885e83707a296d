"""Keeping and finding values, in SQLite or PostgreSQL.

    types        how times and JSON are kept
    tables       every table of the house; those of spans are in span_tables
    database     opens one; runs what the others state, off the loop
    sqlite       a writer thread with group commit, and readers beside it
    postgres     a pool of connections, and what other processes say
    migrating    brings an old database up to date, and refuses a newer one
    migrations/  Alembic's scripts, one per change

The others are repositories, one per kind of thing. Their functions are sync, take a connection first, do nothing but
ask the database, and state each query once, for both engines.
"""
