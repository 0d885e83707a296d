"""The parts of the benchmark of traces.

chats             generated spans: chats over OTLP, 2 KiB each, 20 to a trace
driver_baseline   the same rows, written by the database driver alone
ingestion         spans per second, compared with the driver and with Arize Phoenix
otlp_sender       concurrent requests to /v1/traces
queries           query times of a server that holds many spans
retention         deleting a day of spans
run_overhead      the cost of tracing a run
span_database     databases filled with many spans
"""
