"""Translate Agenta's evaluators and their settings into Palaver's.

Settings without a counterpart are listed in the notes. Code is stored as text and never run. A tree of matchers becomes
a `combine`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from palaver.errors import InvalidBody
from palaver.evaluation.plan.request import EvaluatorInput

_PASS_MODES = {"all": "all", "any": "any", "threshold": "weighted"}
_SIMILARITY_EVALUATORS = {"jaccard": "similarity", "levenshtein": "levenshtein", "cosine": "semantic_similarity"}
_AFFIX_PARAMETERS = {"starts_with": "prefix", "ends_with": "suffix"}
_DIFF_PARAMETERS = {"schema": {"compare": "types"}, "strict": {"extra": "count"}}


def combine_parameters(node: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters of a `combine`, and notes on differences."""
    notes: list[str] = []
    parts: list[dict[str, Any]] = []
    matchers = node.get("matchers")
    for matcher in cast("list[Any]", matchers) if isinstance(matchers, list) else []:
        if not isinstance(matcher, dict):
            continue
        child = cast("dict[str, Any]", matcher)
        if child.get("matchers"):
            child_parameters, child_notes = combine_parameters(child)
            notes += child_notes
            part = {"key": "combine", "parameters": child_parameters}
        else:
            part = _leaf_evaluator(child, notes)
        if part is not None:
            weight = child.get("weight", 1)
            if isinstance(weight, int | float) and weight > 0:
                parts.append(part if weight == 1 else {**part, "weight": weight})
            else:
                notes.append("A matcher without a positive weight was skipped.")
    if (score := node.get("score", "weighted")) != "weighted":
        notes.append(f"Score mode {score!r} is not supported. The weighted mean is used instead.")
    mode = _PASS_MODES.get(str(node.get("success", "threshold")), "all")
    parameters: dict[str, Any] = {"of": parts, "pass": mode}
    if mode == "weighted":
        parameters["threshold"] = node.get("threshold", 1.0)
    return parameters, notes


def _leaf_evaluator(node: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
    parameters: dict[str, Any] = {}
    target = _target_path(str(node.get("target", "$.outputs")))
    if target is None:
        notes.append(f"Target {node.get('target')!r} is not supported. The matcher was skipped.")
        return None
    if target != "text":
        parameters["target"] = target
    if node.get("case_sensitive") is False:
        parameters["case_sensitive"] = False
    kind, reference = str(node.get("match", "valid")), node.get("reference")
    column = _reference_column(reference)
    if column is not None:
        parameters["expected_from"] = column
    key = _matcher_evaluator(kind, node, reference if column is None else None, parameters)
    if key is None:
        notes.append(f"Matcher {kind!r} is not supported and was skipped.")
        return None
    if key in (*_SIMILARITY_EVALUATORS.values(), "json_diff"):
        parameters["threshold"] = node.get("threshold", 1.0)
    return {"key": key, "parameters": parameters}


def _matcher_evaluator(kind: str, node: Mapping[str, Any], literal: Any, parameters: dict[str, Any]) -> str | None:
    """Return the evaluator for one matcher; add what it looks for to `parameters`.

    `literal` is a reference that is not a column.
    """
    is_json = node.get("mode") == "json"
    match kind:
        case "valid":
            return "contains_json" if is_json else None
        case "exact" if isinstance(literal, str) and not is_json:
            return _regex_matcher(re.escape(literal), {"full": True}, parameters)
        case "exact" if literal is None:
            return "exact_match"
        case "starts_with" | "ends_with":
            if literal is not None:
                parameters[_AFFIX_PARAMETERS[kind]] = literal
            return kind
        case "contains":
            return _contains_matcher(node, literal, parameters)
        case "regex" if isinstance(literal, str):
            return _regex_matcher(literal, {}, parameters)
        case "similarity" if literal is None:
            method = str(node.get("similarity", "jaccard"))
            if method == "cosine":
                parameters["model"] = "text-embedding-3-small"
            return _SIMILARITY_EVALUATORS.get(method)
        case "diff" if literal is None:
            mode = str(node.get("diff", "full"))
            parameters |= _DIFF_PARAMETERS.get(mode, {"extra": "ignore"})
            if parameters.pop("case_sensitive", True) is False:
                parameters["ignore_key_case"] = True
            return "json_diff"
        case _:
            return None


def _regex_matcher(pattern: str, options: Mapping[str, Any], parameters: dict[str, Any]) -> str:
    if parameters.pop("case_sensitive", True) is False:
        parameters["flags"] = "i"
    parameters.update(pattern=pattern, **options)
    return "regex"


def _contains_matcher(node: Mapping[str, Any], literal: Any, parameters: dict[str, Any]) -> str:
    references = node.get("references")
    if isinstance(references, list):
        parameters["substrings"] = [str(reference) for reference in cast("list[Any]", references)]
        return "contains_any" if node.get("contains") == "any" else "contains_all"
    if literal is not None:
        parameters["substring"] = literal
    return "contains"


def _target_path(path: str) -> str | None:
    """Translate a path: `$.outputs` is the text, `$.outputs.a` a path in the value. None for other paths."""
    relative = path.removeprefix("$").removeprefix(".")
    if relative == "outputs":
        return "text"
    return f"value{relative.removeprefix('outputs')}" if relative.startswith(("outputs.", "outputs[")) else None


def _reference_column(reference: Any) -> str | None:
    """Return the column that a reference such as `$.inputs.answer` names; None for literals."""
    if not isinstance(reference, str):
        return None
    match = re.fullmatch(r"\$\.(?:inputs|testcase(?:\.data)?)\.(.+)", reference)
    return None if match is None else match[1]


AgentaSettings = Mapping[str, Any]
MappedParameters = tuple[dict[str, Any], list[str]]
"""Parameters and notes."""


class ImportedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """The result of importing an Agenta evaluator."""

    name: str
    source: str
    evaluator: EvaluatorInput | None
    """None if there is no equivalent."""
    notes: tuple[str, ...] = ()
    text: str | None = None
    """Code of the evaluator. It is never run."""


def import_evaluators(document: Any) -> list[ImportedEvaluator]:
    """Translate a document: one evaluator, a list, or an object that holds the list."""
    documents = _evaluator_documents(document)
    if not documents or not all(isinstance(item, dict) for item in documents):
        raise InvalidBody("No Agenta evaluator found. Pass one, or a list under `evaluators`.")
    return [_import_evaluator(cast("dict[str, Any]", item), index) for index, item in enumerate(documents)]


def _evaluator_documents(document: Any) -> Sequence[Any]:
    match document:
        case [*documents]:
            return documents
        case {"evaluators": [*documents]} | {"evaluator_configs": [*documents]} | {"data": [*documents]}:
            return documents
        case {"evaluator": {"data": _} | {"evaluator_key": _} as evaluator}:
            return [evaluator]
        case {"evaluator_key": str()} | {"data": {"uri": str()}} | {"key": str()}:
            return [document]
        case _:
            return ()


def _import_evaluator(item: dict[str, Any], index: int) -> ImportedEvaluator:
    data = _as_object(item.get("data"))
    source = _agenta_key(item, data)
    settings = _read_settings(item, data)
    configured_name = item.get("name") or item.get("slug")
    name = configured_name if isinstance(configured_name, str) else source or f"evaluator {index + 1}"
    if source in ("auto_custom_code_run", "code"):
        text = settings.get("code") or _as_object(data.get("script")).get("content")
        note = "Code is imported as text and never run. Rewrite it as a custom evaluator."
        code = text if isinstance(text, str) else None
        return ImportedEvaluator(name=name, source=source, evaluator=None, notes=(note,), text=code)
    key, map_settings, known = _EVALUATOR_TABLE.get(source, ("", None, frozenset[str]()))
    if map_settings is None:
        note = f"Evaluator {source!r} is not supported." if source else "The evaluator's key is missing."
        return ImportedEvaluator(name=name, source=source, evaluator=None, notes=(note,))
    parameters, notes = map_settings({**settings, **_document_extras(data)})
    if isinstance(column := settings.get("correct_answer_key"), str) and column and key in _EVALUATORS_WITH_EXPECTED:
        # Agenta's value is a column name, not a path.
        parameters["expected_from"] = column.removeprefix("testcase.")
    unmapped = settings.keys() - known - _COMMON_SETTINGS - {"correct_answer_key"}
    notes += [f"Setting {setting!r} is not supported and was ignored." for setting in sorted(unmapped)]
    if key == "combine" and not parameters["of"]:
        return ImportedEvaluator(name=name, source=source, evaluator=None, notes=tuple(notes))
    wanted = EvaluatorInput(key=key, name=name[:200] or None, parameters=parameters)
    return ImportedEvaluator(name=name, source=source, evaluator=wanted, notes=tuple(notes))


def _agenta_key(item: dict[str, Any], data: AgentaSettings) -> str:
    uri = data.get("uri") or item.get("uri")
    if isinstance(uri, str) and uri.count(":") >= 2:
        return uri.split(":")[2]  # agenta:builtin:auto_exact_match:v0
    key = item.get("evaluator_key") or item.get("key") or uri
    return key if isinstance(key, str) else ""


def _read_settings(item: dict[str, Any], data: AgentaSettings) -> AgentaSettings:
    sources = (item.get("settings_values"), data.get("parameters"), data.get("configuration"), item.get("parameters"))
    return next((_as_object(source) for source in sources if source), _as_object(None))


def _document_extras(data: AgentaSettings) -> dict[str, Any]:
    schemas = _as_object(data.get("schemas")).get("outputs")
    service = _as_object(_as_object(_as_object(data.get("service")).get("format")).get("properties")).get("outputs")
    extras = {"__url__": data.get("url"), "__outputs__": schemas or service}
    return {name: value for name, value in extras.items() if value}


# Settings of each evaluator


def _copier(*names: str) -> Callable[[AgentaSettings], MappedParameters]:
    """Return a function that takes over the settings of these names, and the common ones."""

    def copy_settings(settings: AgentaSettings) -> MappedParameters:
        parameters = {name: settings[name] for name in (*names, "threshold") if settings.get(name) is not None}
        if settings.get("case_sensitive") is False:
            parameters["case_sensitive"] = False
        return parameters, []

    return copy_settings


def _regex_parameters(settings: AgentaSettings) -> MappedParameters:
    parameters: dict[str, Any] = {"pattern": settings.get("regex_pattern", "")}
    if settings.get("regex_should_match", True) in (False, "false", "False"):
        parameters["should_match"] = False
    if settings.get("case_sensitive") is False:
        parameters["flags"] = "i"
    return parameters, []


def _json_field_parameters(settings: AgentaSettings) -> MappedParameters:
    return {"path": settings.get("json_field", "")}, []


def _json_diff_parameters(settings: AgentaSettings) -> MappedParameters:
    parameters = _copier()(settings)[0]
    if settings.get("compare_schema_only"):
        parameters["compare"] = "types"
    if not settings.get("predict_keys"):
        parameters["extra"] = "ignore"
    if settings.get("case_insensitive_keys"):
        parameters["ignore_key_case"] = True
    return parameters, []


def _similarity_parameters(settings: AgentaSettings) -> MappedParameters:
    parameters = _copier()(settings)[0]
    if (threshold := settings.get("similarity_threshold")) is not None:
        parameters["threshold"] = threshold
    return parameters, ["Computed with rapidfuzz: scores are close to Agenta's, but not identical."]


def _semantic_parameters(settings: AgentaSettings) -> MappedParameters:
    model = settings.get("embedding_model") or "text-embedding-3-small"
    return {**_copier()(settings)[0], "model": model}, [f"Uses the model {model!r}, which requires a provider."]


_SLOT = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_SLOT_NAMES = {
    **dict.fromkeys(("prediction", "outputs", "output", "$.outputs"), "text"),
    **dict.fromkeys(("ground_truth", "correct_answer", "reference", "expected_output"), "expected"),
    **dict.fromkeys(("inputs", "$.inputs"), "inputs"),
}


def _judge_parameters(settings: AgentaSettings) -> MappedParameters:
    template = settings.get("prompt_template") or settings.get("messages") or settings.get("prompt") or ""
    notes: list[str] = []
    texts: list[str] = []
    for message in cast("list[Any]", template) if isinstance(template, list) else [{"content": template}]:
        content = _as_object(message).get("content")
        if isinstance(content, str):
            texts.append(content)
        elif content is not None:
            notes.append("A prompt message that is not text was skipped.")
    answer_column = settings.get("correct_answer_key")

    def translate_slot(match: re.Match[str]) -> str:
        name = match[1]
        if name in _SLOT_NAMES:
            return f"{{{{{_SLOT_NAMES[name]}}}}}"
        if name == answer_column:
            return "{{expected}}"
        path = name.removeprefix("$.")
        if path.startswith("trace"):
            notes.append(f"Prompt placeholder {name!r} is not supported.")
        return f"{{{{{path if path.startswith('inputs.') else f'inputs.{path}'}}}}}"

    prompt = _SLOT.sub(translate_slot, "\n\n".join(texts))
    parameters: dict[str, Any] = {"judge": settings.get("model") or "gpt-4o-mini", "prompt": prompt}
    if isinstance(schema := _as_object(settings.get("json_schema")).get("schema"), dict):
        parameters["schema"] = cast("Any", schema)
    if settings.get("threshold") is not None:
        parameters["threshold"] = settings["threshold"]
    if not settings.get("model"):
        notes.append("No model is set: gpt-4o-mini is used, as in Agenta.")
    return parameters, notes


def _webhook_parameters(settings: AgentaSettings) -> MappedParameters:
    url = settings.get("webhook_url") or settings.get("url") or settings.get("__url__") or ""
    return {"url": url, "body": "agenta"}, []


def _human_parameters(settings: AgentaSettings) -> MappedParameters:
    questions: list[dict[str, Any]] = []
    schema = _as_object(settings.get("__outputs__"))
    required = schema.get("required")
    required_keys = cast("list[Any]", required) if isinstance(required, list) else []
    for key, value in _as_object(schema.get("properties")).items():
        questions.append({"key": key, **_make_question(_as_object(value)), "required": key in required_keys})
    return ({"questions": questions}, []) if questions else ({}, ["No questions found for reviewers."])


def _make_question(answer_schema: AgentaSettings) -> dict[str, Any]:
    items = _as_object(answer_schema.get("items"))
    choices = answer_schema.get("enum") or items.get("enum")
    if isinstance(choices, list):
        texts = [str(choice) for choice in cast("list[Any]", choices) if choice is not None]
        return {"type": "choice", "choices": texts}
    match answer_schema.get("type"):
        case "number" | "integer":
            bounds = (answer_schema.get("minimum"), answer_schema.get("maximum"))
            return {"type": "score", "range": list(bounds)} if None not in bounds else {"type": "score"}
        case "string":
            return {"type": "text"}
        case _:
            return {"type": "boolean"}


def _as_object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


_COMMON_SETTINGS = frozenset({"version", "requires_llm_api_keys", "response_type", "case_sensitive", "threshold"})
"""Settings that Palaver ignores, or that are handled for all evaluators."""
_EVALUATORS_WITH_EXPECTED = frozenset(
    "exact_match json_field_match json_multi_field_match json_diff levenshtein similarity semantic_similarity".split()
)
_JUDGE_ENTRY = (
    "llm_judge",
    _judge_parameters,
    frozenset({"prompt_template", "messages", "prompt", "model", "json_schema"}),
)
_WEBHOOK_ENTRY = ("webhook", _webhook_parameters, frozenset({"webhook_url", "url"}))
_EVALUATOR_TABLE: Mapping[str, tuple[str, Callable[[AgentaSettings], MappedParameters] | None, frozenset[str]]] = {
    "auto_exact_match": ("exact_match", _copier(), frozenset()),
    "auto_regex_test": ("regex", _regex_parameters, frozenset({"regex_pattern", "regex_should_match"})),
    "auto_starts_with": ("starts_with", _copier("prefix"), frozenset({"prefix"})),
    "auto_ends_with": ("ends_with", _copier("suffix"), frozenset({"suffix"})),
    "auto_contains": ("contains", _copier("substring"), frozenset({"substring"})),
    "auto_contains_any": ("contains_any", _copier("substrings"), frozenset({"substrings"})),
    "auto_contains_all": ("contains_all", _copier("substrings"), frozenset({"substrings"})),
    "auto_contains_json": ("contains_json", _copier(), frozenset()),
    "field_match_test": ("json_field_match", _json_field_parameters, frozenset({"json_field"})),
    "json_multi_field_match": ("json_multi_field_match", _copier("fields"), frozenset({"fields"})),
    "auto_json_diff": (
        "json_diff",
        _json_diff_parameters,
        frozenset({"compare_schema_only", "predict_keys", "case_insensitive_keys"}),
    ),
    "auto_levenshtein_distance": ("levenshtein", _copier(), frozenset()),
    "auto_similarity_match": ("similarity", _similarity_parameters, frozenset({"similarity_threshold"})),
    "auto_semantic_similarity": ("semantic_similarity", _semantic_parameters, frozenset({"embedding_model"})),
    "auto_ai_critique": _JUDGE_ENTRY,
    "llm": _JUDGE_ENTRY,
    "auto_webhook_test": _WEBHOOK_ENTRY,
    "hook": _WEBHOOK_ENTRY,
    "match": ("combine", combine_parameters, frozenset({"matchers", "score", "success"})),
    "feedback": ("human", _human_parameters, frozenset()),
}
