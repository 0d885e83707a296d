"""Import of Agenta's evaluator configurations."""

from typing import Any

import pytest

from palaver.errors import InvalidBody
from palaver.evaluation.agenta import ImportedEvaluator, import_evaluators
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.plan.request import EvaluatorInput


def import_one(key: str, settings: dict[str, Any], **data: Any) -> ImportedEvaluator:
    (result,) = import_evaluators(
        [{"name": "mine", "data": {"uri": f"agenta:builtin:{key}:v0", "parameters": settings, **data}}]
    )
    assert (result.name, result.source) == ("mine", key)
    return result


@pytest.mark.parametrize(
    ("key", "settings", "palaver_key", "parameters"),
    [
        ("auto_exact_match", {"correct_answer_key": "answer"}, "exact_match", {"expected_from": "answer"}),
        (
            "auto_regex_test",
            {"regex_pattern": "^A", "regex_should_match": False, "case_sensitive": False},
            "regex",
            {"pattern": "^A", "should_match": False, "flags": "i"},
        ),
        ("auto_starts_with", {"prefix": "Hi", "case_sensitive": True}, "starts_with", {"prefix": "Hi"}),
        ("auto_ends_with", {"suffix": "!"}, "ends_with", {"suffix": "!"}),
        (
            "auto_contains",
            {"substring": "x", "case_sensitive": False},
            "contains",
            {"substring": "x", "case_sensitive": False},
        ),
        ("auto_contains_any", {"substrings": "a,b"}, "contains_any", {"substrings": "a,b"}),
        ("auto_contains_all", {"substrings": ["a", "b"]}, "contains_all", {"substrings": ["a", "b"]}),
        ("auto_contains_json", {}, "contains_json", {}),
        (
            "field_match_test",
            {"json_field": "a.b", "correct_answer_key": "gold"},
            "json_field_match",
            {"path": "a.b", "expected_from": "gold"},
        ),
        (
            "json_multi_field_match",
            {"fields": ["a", "b.c"], "correct_answer_key": "gold"},
            "json_multi_field_match",
            {"fields": ["a", "b.c"], "expected_from": "gold"},
        ),
        (
            "auto_json_diff",
            {"compare_schema_only": True, "predict_keys": True, "case_insensitive_keys": True, "threshold": 0.7},
            "json_diff",
            {"compare": "types", "ignore_key_case": True, "threshold": 0.7},
        ),
        ("auto_json_diff", {"predict_keys": False}, "json_diff", {"extra": "ignore"}),
        ("auto_json_diff", {}, "json_diff", {"extra": "ignore"}),
        (
            "auto_levenshtein_distance",
            {"threshold": 0.4, "case_sensitive": False},
            "levenshtein",
            {"threshold": 0.4, "case_sensitive": False},
        ),
    ],
)
def test_evaluator_key_and_settings_are_converted(
    key: str, settings: dict[str, Any], palaver_key: str, parameters: dict[str, Any]
) -> None:
    result = import_one(key, settings)

    assert result.evaluator == EvaluatorInput(key=palaver_key, name="mine", parameters=parameters)
    assert result.notes == ()
    assert parameters.keys() <= built_in()[palaver_key].schema["properties"].keys()


def test_imported_similarity_notes_that_scores_differ_slightly() -> None:
    result = import_one("auto_similarity_match", {"similarity_threshold": 0.4})

    assert result.evaluator == EvaluatorInput(key="similarity", name="mine", parameters={"threshold": 0.4})
    assert result.notes == ("Computed with rapidfuzz: scores are close to Agenta's, but not identical.",)


def test_semantic_similarity_uses_the_same_embedding_model() -> None:
    result = import_one("auto_semantic_similarity", {"threshold": 0.9})

    assert result.evaluator == EvaluatorInput(
        key="semantic_similarity", name="mine", parameters={"threshold": 0.9, "model": "text-embedding-3-small"}
    )
    assert result.notes == ("Uses the model 'text-embedding-3-small', which requires a provider.",)


@pytest.mark.parametrize("key", ["auto_ai_critique", "llm"])
def test_judge_prompt_is_imported_with_its_placeholders_converted(key: str) -> None:
    prompt = [
        {"role": "system", "content": "You judge."},
        {"role": "user", "content": "{{ country }}: {{prediction}} or {{gold}}? {{inputs.topic}} {{$.inputs.a}}"},
    ]
    schema = {"type": "object", "properties": {"score": {"type": "number"}}}

    result = import_one(
        key,
        {
            "prompt_template": prompt,
            "model": "gpt-4o",
            "json_schema": {"name": "s", "schema": schema},
            "version": "4",
            "correct_answer_key": "gold",
        },
    )

    assert result.evaluator == EvaluatorInput(
        key="llm_judge",
        name="mine",
        parameters={
            "judge": "gpt-4o",
            "prompt": "You judge.\n\n{{inputs.country}}: {{text}} or {{expected}}? {{inputs.topic}} {{inputs.a}}",
            "schema": schema,
        },
    )
    assert result.notes == ()


@pytest.mark.parametrize("key", ["auto_webhook_test", "hook"])
def test_webhook_is_imported_with_agentas_request_body(key: str) -> None:
    result = import_one(key, {"webhook_url": "https://example.com/score", "requires_llm_api_keys": False})

    assert result.evaluator == EvaluatorInput(
        key="webhook", name="mine", parameters={"url": "https://example.com/score", "body": "agenta"}
    )


@pytest.mark.parametrize("key", ["auto_custom_code_run", "code"])
def test_custom_code_is_imported_as_text_without_an_evaluator(key: str) -> None:
    result = import_one(key, {"code": "import os", "requires_llm_api_keys": False})

    assert result == ImportedEvaluator(
        name="mine",
        source=key,
        evaluator=None,
        notes=("Code is imported as text and never run. Rewrite it as a custom evaluator.",),
        text="import os",
    )


def test_matchers_become_a_combine_evaluator() -> None:
    result = import_one(
        "match",
        {
            "success": "all",
            "matchers": [
                {"key": "a", "target": "$.outputs", "match": "exact", "reference": "$.inputs.gold", "weight": 2},
                {"key": "b", "target": "$.outputs.city", "match": "regex", "reference": "^O", "case_sensitive": False},
                {"key": "c", "target": "$.outputs", "match": "contains", "references": ["x", "y"], "contains": "any"},
                {
                    "key": "d",
                    "score": "min",
                    "threshold": 0.5,
                    "matchers": [
                        {
                            "target": "$.outputs",
                            "match": "similarity",
                            "similarity": "levenshtein",
                            "reference": "$.inputs.gold",
                            "threshold": 0.8,
                        },
                        {"target": "$.outputs", "mode": "json", "match": "valid"},
                        {"target": "$.trace.x", "match": "exact"},
                    ],
                },
                {"target": "$.outputs", "match": "exact", "reference": "Paris."},
            ],
        },
    )

    assert result.evaluator == EvaluatorInput(
        key="combine",
        name="mine",
        parameters={
            "of": [
                {"key": "exact_match", "parameters": {"expected_from": "gold"}, "weight": 2},
                {"key": "regex", "parameters": {"target": "value.city", "flags": "i", "pattern": "^O"}},
                {"key": "contains_any", "parameters": {"substrings": ["x", "y"]}},
                {
                    "key": "combine",
                    "parameters": {
                        "of": [
                            {"key": "levenshtein", "parameters": {"expected_from": "gold", "threshold": 0.8}},
                            {"key": "contains_json", "parameters": {}},
                        ],
                        "pass": "weighted",
                        "threshold": 0.5,
                    },
                },
                {"key": "regex", "parameters": {"pattern": "Paris\\.", "full": True}},
            ],
            "pass": "all",
        },
    )
    assert result.notes == (
        "Target '$.trace.x' is not supported. The matcher was skipped.",
        "Score mode 'min' is not supported. The weighted mean is used instead.",
    )


def import_matchers(*matchers: Any, **node: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Return the parts of the imported combination, and the notes."""
    result = import_one(
        "match", {"success": "all", "matchers": [{"match": "valid", "mode": "json"}, *matchers], **node}
    )
    assert result.evaluator is not None
    _, *parts = result.evaluator.parameters["of"]
    return parts, result.notes


@pytest.mark.parametrize(
    ("matcher", "key", "parameters"),
    [
        ({"match": "starts_with", "reference": "Dear"}, "starts_with", {"prefix": "Dear"}),
        ({"match": "ends_with", "reference": "$.testcase.data.end"}, "ends_with", {"expected_from": "end"}),
        (
            {"match": "contains", "reference": "ten", "case_sensitive": False},
            "contains",
            {"case_sensitive": False, "substring": "ten"},
        ),
        ({"match": "contains", "references": ["a", 1]}, "contains_all", {"substrings": ["a", "1"]}),
        (
            {"match": "similarity", "similarity": "cosine", "reference": "$.inputs.gold"},
            "semantic_similarity",
            {"expected_from": "gold", "model": "text-embedding-3-small", "threshold": 1.0},
        ),
        (
            {"match": "diff", "diff": "schema", "reference": "$.inputs.gold", "target": "$.outputs[0]"},
            "json_diff",
            {"target": "value[0]", "expected_from": "gold", "compare": "types", "threshold": 1.0},
        ),
        (
            {"match": "diff", "diff": "strict", "case_sensitive": False, "threshold": 0.5},
            "json_diff",
            {"extra": "count", "ignore_key_case": True, "threshold": 0.5},
        ),
        ({"match": "diff"}, "json_diff", {"extra": "ignore", "threshold": 1.0}),
    ],
)
def test_a_matcher_becomes_the_equivalent_evaluator(
    matcher: dict[str, Any], key: str, parameters: dict[str, Any]
) -> None:
    assert import_matchers(matcher) == ([{"key": key, "parameters": parameters}], ())
    assert parameters.keys() <= built_in()[key].schema["properties"].keys()


@pytest.mark.parametrize(
    ("matcher", "note"),
    [
        ({"match": "valid"}, "Matcher 'valid' is not supported and was skipped."),
        ({"match": "exact", "reference": 7}, "Matcher 'exact' is not supported and was skipped."),
        ({"match": "regex"}, "Matcher 'regex' is not supported and was skipped."),
        (
            {"match": "similarity", "similarity": "soundex"},
            "Matcher 'similarity' is not supported and was skipped.",
        ),
        ({"match": "exact", "weight": 0}, "A matcher without a positive weight was skipped."),
        ({"match": "exact", "weight": "much"}, "A matcher without a positive weight was skipped."),
    ],
)
def test_an_unsupported_matcher_is_left_out_with_a_note(matcher: dict[str, Any], note: str) -> None:
    assert import_matchers(matcher) == ([], (note,))


def test_matchers_that_are_not_objects_are_ignored() -> None:
    assert import_matchers("exact", None, {"match": "exact"}) == ([{"key": "exact_match", "parameters": {}}], ())


@pytest.mark.parametrize("matchers", [[], None, "exact"])
def test_a_match_evaluator_without_matchers_is_not_imported(matchers: Any) -> None:
    assert import_one("match", {"matchers": matchers}).evaluator is None


def test_feedback_becomes_a_human_evaluator_with_questions() -> None:
    outputs = {
        "type": "object",
        "required": ["ok"],
        "properties": {
            "ok": {"type": "boolean"},
            "tone": {"type": "string", "enum": ["warm", "cold"]},
            "stars": {"type": "integer", "minimum": 1, "maximum": 5},
            "why": {"type": "string"},
        },
    }

    result = import_one("feedback", {}, schemas={"outputs": outputs})

    assert result.evaluator == EvaluatorInput(
        key="human",
        name="mine",
        parameters={
            "questions": [
                {"key": "ok", "type": "boolean", "required": True},
                {"key": "tone", "type": "choice", "choices": ["warm", "cold"], "required": False},
                {"key": "stars", "type": "score", "range": [1, 5], "required": False},
                {"key": "why", "type": "text", "required": False},
            ]
        },
    )


def test_unknown_evaluators_are_listed_with_a_note() -> None:
    assert import_evaluators(
        {"evaluators": [{"slug": "rag", "data": {"uri": "agenta:builtin:rag_faithfulness:v0"}}, {}]}
    ) == [
        ImportedEvaluator(
            name="rag",
            source="rag_faithfulness",
            evaluator=None,
            notes=("Evaluator 'rag_faithfulness' is not supported.",),
        ),
        ImportedEvaluator(name="evaluator 2", source="", evaluator=None, notes=("The evaluator's key is missing.",)),
    ]


def test_settings_without_a_counterpart_are_noted() -> None:
    notes = ("Setting 'colour' is not supported and was ignored.",)
    assert import_one("auto_exact_match", {"colour": "red"}).notes == notes


OLD_CONFIG = {"name": "Starts", "evaluator_key": "auto_starts_with", "settings_values": {"prefix": "A"}}


@pytest.mark.parametrize(
    "document",
    [OLD_CONFIG, [OLD_CONFIG], {"evaluator_configs": [OLD_CONFIG]}, {"evaluator": OLD_CONFIG}],
    ids=["one", "list", "object", "wrapped"],
)
def test_older_export_formats_are_imported(document: Any) -> None:
    assert import_evaluators(document) == [
        ImportedEvaluator(
            name="Starts",
            source="auto_starts_with",
            evaluator=EvaluatorInput(key="starts_with", name="Starts", parameters={"prefix": "A"}),
        )
    ]


@pytest.mark.parametrize("document", [None, 7, "x", [], {}, {"evaluators": []}, [1]])
def test_a_document_without_evaluators_is_rejected(document: Any) -> None:
    with pytest.raises(InvalidBody, match="No Agenta evaluator found"):
        import_evaluators(document)
