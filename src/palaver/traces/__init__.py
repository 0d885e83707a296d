"""Spans: recorded from runs, received over OTLP, mapped from common conventions, redacted, stored and read back.

Modules:

    model            the span record
    otlp             OTLP requests and responses
    conventions      attribute names of vendors
    span_mapper      from a decoded span to the record
    ingest           from a request to database rows
    decode_worker    a child process that decodes large requests
    writer           batched writes of spans
    redaction        removal of secrets and personal data
    prices           cost of model calls
    run_facts        what is known of a finished run
    run_spans        the spans of a run and its tools
    step_spans       the spans of framework steps
    sdk_bridge       runs as parents of OpenTelemetry SDK spans
    sdk_spans        from SDK spans to the record
    conversation     turns and tabs from traces
    stored_spans     reading and exporting stored spans
"""
