"""The core data model, and pure functions on it.

Nothing here does I/O, reads a clock (except to limit a validation) or generates randomness, and nothing here knows a
protocol or a framework.

    api_keys            API keys: format, hashing, scopes, expiry
    boards              saved grids of workflows and inputs
    descriptions        the public description of a workflow
    dialects            messages to and from the formats of other libraries
    events              events of a run's stream, and their packed form
    extraction          the conversation in any value, and previews of it
    fold                the whole reply of a stream of events
    grammar             a valid stream of events from a workflow's output
    history_validation  validation of a client's message history
    ids                 sortable ids, and the ids of a run's messages and items
    json                decoding, encoding and inspecting JSON values
    json_schema         bounded JSON Schema validation
    linearize           a stream with one open item at a time
    secret_mask         credentials in log and error text
    messages            messages, parts, files and usage
    model_options       options of a call for the model, and the format that a reply must have
    output_filters      stop sequences, and commentary beside a reply that has to be JSON
    runs                calls, replies, origins and records of runs, and the end of an interrupted one
    steps               model calls, tools and agents inside a run
    thread_tree         the message tree of a thread
    variants            named sets of parameters
"""
