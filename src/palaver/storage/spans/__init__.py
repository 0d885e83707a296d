"""Spans and traces.

    tables      the tables of spans
    writes      insert and delete
    span_logs   events from log records, joined to their spans
    partitions  days and their PostgreSQL partitions
    queries     lists of spans, traces and sessions
    filters     the filter language
    full_text   search for words
    traces      one trace: tree, overview, bodies
    stats       statistics over time
    retention   deletion of expired or labelled spans

Span bodies are opaque here: palaver.traces encodes and decodes them.
"""
