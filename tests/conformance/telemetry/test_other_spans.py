"""Embeddings, retrieval and failed calls fill the common fields of spans."""

from typing import Any

from tests.conformance.telemetry.trace_server import RunEmitter


def pick_fields(span: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: span[name] for name in names}


def test_embeddings_of_the_ai_sdk_are_counted_once(emitted: RunEmitter) -> None:
    table = emitted("ai_sdk.mjs")

    for session in ("6-embedded", "7-embedded"):
        (row,) = table.rows(session)

        assert pick_fields(row, "kind", "model", "provider", "user", "input_tokens", "output_tokens", "spans") == {
            "kind": "embedding",
            "model": "text-embedding-3-small",
            "provider": "openai",
            "user": "u-1",
            "input_tokens": 12,
            "output_tokens": 0,
            "spans": 3,
        }
        assert table.tree(row["trace_id"]) == [("embedding", ("embedding",), ("embedding",))]
    (embedded,) = table.rows("6-embedded")
    root = next(span for span in table.spans(embedded["trace_id"]) if span["parent_id"] is None)
    assert pick_fields(root, "inputs", "usage") == {"inputs": ["Oslo", "Bergen"], "usage": None}


def test_a_langchain_retriever_span_has_its_query_and_documents(emitted: RunEmitter) -> None:
    table = emitted("langchain_agent.py")
    (row,) = table.rows("retrieval")
    (span,) = table.spans(row["trace_id"])

    assert (row["kind"], row["in"]["text"]) == ("retrieval", "Oslo")
    assert pick_fields(span, "inputs", "outputs") == {
        "inputs": "Oslo",
        "outputs": {"documents": [{"content": "Oslo: bring a coat.", "metadata": {"page": 7}}]},
    }


def test_a_failed_model_call_shows_its_input_and_its_exception(emitted: RunEmitter) -> None:
    table = emitted("openai_sdk.py")
    (row,) = table.rows("failed")
    message = "Error code: 404 - Workflow 'gpt-of-nobody' not found. Available: gpt-4o-mini."

    assert pick_fields(row, "status", "model", "errors", "input_tokens") == {
        "status": "error",
        "model": "gpt-of-nobody",
        "errors": 2,
        "input_tokens": None,
    }
    assert [(row[side]["renderer"], row[side]["text"]) for side in ("in", "out")] == [
        ("chat", "Hello?"),
        ("text", message),
    ]
    (_, call) = table.spans(row["trace_id"])
    assert pick_fields(call, "kind", "exception") == {
        "kind": "llm",
        "exception": {"type": "openai.NotFoundError", "message": message},
    }
