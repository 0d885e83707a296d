"""Conventions: which attribute names mean what. `span_mapper` asks one module per vendor, in order.

Modules:

    attributes        the interface of a convention, and reading of attribute values
    vocabulary        kinds of spans and finish reasons
    messages          messages from attributes, indexed fields and events
    palaver           Palaver's own attributes
    gen_ai            OpenTelemetry's gen_ai
    pydantic_ai       Pydantic AI and Logfire, a part of gen_ai
    openinference     OpenInference (Phoenix)
    agent_frameworks  smolagents and CrewAI, a part of openinference
    ai_sdk            the AI SDK up to version 6
    agenta            Agenta
    langfuse          Langfuse
    mlflow            MLflow
    openllmetry       OpenLLMetry (Traceloop)
    events            messages in span events
"""
