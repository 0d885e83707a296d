"""Declare workflows: a Python function becomes a workflow that describes itself, accepts calls and yields values.

    adapters        framework adapters, found by entry point
    annotations     annotations as JSON Schema and validation
    binding         a call's inputs and parameters as function arguments
    config_models   classes whose fields are parameters
    context         what a running workflow can access and emit
    decorators      @chat and @workflow
    execution       functions of any kind as a stream of values, and values as messages, parts and events
    inline_files    stored files as base64 data
    schemas         JSON Schema documents of a workflow
    signature       the purpose of each function parameter
    thread_pool     OS threads for sync workflows
    workflow        the Workflow protocol, its options, and function workflows

engine/ runs workflows; protocols/ encodes their output.
"""
