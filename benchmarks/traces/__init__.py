"""What the part about traces is made of.

chats       the load: chats as an instrumentation sends them over OTLP, 2 KiB each, 20 to a trace
sending     requests to /v1/traces, several at once
taking      spans per second, and beside Arize Phoenix
bare        the rows that were stored, written once more by nothing but the driver
filling     a database with as many spans as are asked for
asking      questions to a server that holds many spans
going       what the rest waits for while a day is let go of
own         what tracing costs a run
"""
