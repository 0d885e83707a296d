"""Evaluators of Agenta's, as our own: by their key, each setting under the name that it has here.

Nothing is dropped in silence: what has no counterpart is in the notes. Code is kept as text and never run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from palaver.errors import InvalidBody
from palaver.evaluation.agenta.matchers import combined
from palaver.evaluation.planning.plans import WantedEvaluator

Settings = Mapping[str, Any]
Mapped = tuple[dict[str, Any], list[str]]
"""Parameters, and notes."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one evaluator of Agenta's."""

    name: str
    source: str
    """Its key there."""
    evaluator: WantedEvaluator | None
    """As a run takes it; None: there is nothing here that does the same."""
    notes: tuple[str, ...] = ()
    text: str | None = None
    """Code that came with it. It is never run: write it as an evaluator of your own, and use that."""


def imported(document: Any) -> list[Imported]:
    """All evaluators of a document: a list of them, one of them, or an object that has the list."""
    found = _listed(document)
    if not found or not all(isinstance(one, dict) for one in found):
        raise InvalidBody("There is no evaluator of Agenta's in it: give one, or a list under `evaluators`.")
    return [_imported(cast("dict[str, Any]", one), place) for place, one in enumerate(found)]


def _listed(document: Any) -> Sequence[Any]:
    match document:
        case [*those]:
            return those
        case {"evaluators": [*those]} | {"evaluator_configs": [*those]} | {"data": [*those]}:
            return those
        case {"evaluator": {"data": _} | {"evaluator_key": _} as one}:
            return [one]
        case {"evaluator_key": str()} | {"data": {"uri": str()}} | {"key": str()}:
            return [document]
        case _:
            return ()


def _imported(one: dict[str, Any], place: int) -> Imported:
    data = _mapping(one.get("data"))
    source = _key(one, data)
    settings = _settings(one, data)
    named = one.get("name") or one.get("slug")
    name = named if isinstance(named, str) else source or f"evaluator {place + 1}"
    if source in ("auto_custom_code_run", "code"):
        text = settings.get("code") or _mapping(data.get("script")).get("content")
        note = "Code is never taken over: it is kept as text, and does not run. Write it as an evaluator of your own."
        kept = text if isinstance(text, str) else None
        return Imported(name=name, source=source, evaluator=None, notes=(note,), text=kept)
    key, read, known = _KEYS.get(source, ("", None, frozenset[str]()))
    if read is None:
        note = f"There is no counterpart of {source!r} here." if source else "It does not say which evaluator it is."
        return Imported(name=name, source=source, evaluator=None, notes=(note,))
    parameters, notes = read({**settings, **_beside(data)})
    if isinstance(column := settings.get("correct_answer_key"), str) and column and key in _EXPECTING:
        # The name of a column, as it is: not a path into one.
        parameters["expected_from"] = column.removeprefix("testcase.")
    left = settings.keys() - known - _COMMON - {"correct_answer_key"}
    notes += [f"The setting {setting!r} has no counterpart." for setting in sorted(left)]
    if key == "combine" and not parameters["of"]:
        return Imported(name=name, source=source, evaluator=None, notes=tuple(notes))
    wanted = WantedEvaluator(key=key, name=name[:200] or None, parameters=parameters)
    return Imported(name=name, source=source, evaluator=wanted, notes=tuple(notes))


def _key(one: dict[str, Any], data: Settings) -> str:
    uri = data.get("uri") or one.get("uri")
    if isinstance(uri, str) and uri.count(":") >= 2:
        return uri.split(":")[2]  # agenta:builtin:auto_exact_match:v0
    given = one.get("evaluator_key") or one.get("key") or uri
    return given if isinstance(given, str) else ""


def _settings(one: dict[str, Any], data: Settings) -> Settings:
    places = (one.get("settings_values"), data.get("parameters"), data.get("configuration"), one.get("parameters"))
    return next((_mapping(place) for place in places if place), _mapping(None))


def _beside(data: Settings) -> dict[str, Any]:
    """What newer documents say outside of the settings."""
    schemas = _mapping(data.get("schemas")).get("outputs")
    service = _mapping(_mapping(_mapping(data.get("service")).get("format")).get("properties")).get("outputs")
    found = {"__url__": data.get("url"), "__outputs__": schemas or service}
    return {name: value for name, value in found.items() if value}


# Settings, evaluator by evaluator


def _plain(*names: str) -> Callable[[Settings], Mapped]:
    """Settings that have the same name here."""

    def read(settings: Settings) -> Mapped:
        taken = {name: settings[name] for name in (*names, "threshold") if settings.get(name) is not None}
        if settings.get("case_sensitive") is False:
            taken["case_sensitive"] = False
        return taken, []

    return read


def _regex(settings: Settings) -> Mapped:
    found: dict[str, Any] = {"pattern": settings.get("regex_pattern", "")}
    if settings.get("regex_should_match", True) in (False, "false", "False"):
        found["should_match"] = False
    if settings.get("case_sensitive") is False:
        found["flags"] = "i"
    return found, []


def _field(settings: Settings) -> Mapped:
    return {"path": settings.get("json_field", "")}, []


def _json_diff(settings: Settings) -> Mapped:
    found = _plain()(settings)[0]
    if settings.get("compare_schema_only"):
        found["compare"] = "types"
    if not settings.get("predict_keys"):
        found["extra"] = "ignore"
    if settings.get("case_insensitive_keys"):
        found["ignore_key_case"] = True
    return found, []


def _similarity(settings: Settings) -> Mapped:
    found = _plain()(settings)[0]
    if (threshold := settings.get("similarity_threshold")) is not None:
        found["threshold"] = threshold
    return found, ["It is measured in another way here (rapidfuzz): scores are close, not equal."]


def _semantic(settings: Settings) -> Mapped:
    model = settings.get("embedding_model") or "text-embedding-3-small"
    return {**_plain()(settings)[0], "model": model}, [f"It asks the model {model!r}: a provider must be set up."]


_SLOT = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_SLOTS = {
    **dict.fromkeys(("prediction", "outputs", "output", "$.outputs"), "text"),
    **dict.fromkeys(("ground_truth", "correct_answer", "reference", "expected_output"), "expected"),
    **dict.fromkeys(("inputs", "$.inputs"), "inputs"),
}


def _judge(settings: Settings) -> Mapped:
    template = settings.get("prompt_template") or settings.get("messages") or settings.get("prompt") or ""
    notes: list[str] = []
    said: list[str] = []
    for message in cast("list[Any]", template) if isinstance(template, list) else [{"content": template}]:
        content = _mapping(message).get("content")
        if isinstance(content, str):
            said.append(content)
        elif content is not None:
            notes.append("A message of the prompt is not text, and was left out.")
    answer = settings.get("correct_answer_key")

    def slot(found: re.Match[str]) -> str:
        name = found[1]
        if name in _SLOTS:
            return f"{{{{{_SLOTS[name]}}}}}"
        if name == answer:
            return "{{expected}}"
        path = name.removeprefix("$.")
        if path.startswith("trace"):
            notes.append(f"The slot {name!r} of the prompt has no counterpart.")
        return f"{{{{{path if path.startswith('inputs.') else f'inputs.{path}'}}}}}"

    prompt = _SLOT.sub(slot, "\n\n".join(said))
    found: dict[str, Any] = {"judge": settings.get("model") or "gpt-4o-mini", "prompt": prompt}
    if isinstance(schema := _mapping(settings.get("json_schema")).get("schema"), dict):
        found["schema"] = cast("Any", schema)
    if settings.get("threshold") is not None:
        found["threshold"] = settings["threshold"]
    if not settings.get("model"):
        notes.append("It names no model: gpt-4o-mini is asked, as there.")
    return found, notes


def _webhook(settings: Settings) -> Mapped:
    url = settings.get("webhook_url") or settings.get("url") or settings.get("__url__") or ""
    return {"url": url, "body": "agenta"}, []


def _human(settings: Settings) -> Mapped:
    """Questions, out of the schema of what people answer."""
    questions: list[dict[str, Any]] = []
    schema = _mapping(settings.get("__outputs__"))
    required = schema.get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    for key, value in _mapping(schema.get("properties")).items():
        told = _mapping(value)
        question: dict[str, Any] = {"key": key, **_question(told), "required": key in needed}
        questions.append(question)
    return ({"questions": questions}, []) if questions else ({}, ["It says nothing of what people are asked."])


def _question(told: Settings) -> dict[str, Any]:
    items = _mapping(told.get("items"))
    choices = told.get("enum") or items.get("enum")
    if isinstance(choices, list):
        return {
            "type": "choice",
            "choices": [str(choice) for choice in cast("list[Any]", choices) if choice is not None],
        }
    match told.get("type"):
        case "number" | "integer":
            ends = (told.get("minimum"), told.get("maximum"))
            return {"type": "score", "range": list(ends)} if None not in ends else {"type": "score"}
        case "string":
            return {"type": "text"}
        case _:
            return {"type": "boolean"}


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


_COMMON = frozenset({"version", "requires_llm_api_keys", "response_type", "case_sensitive", "threshold"})
"""What says nothing here, or is taken wherever it means something."""
_EXPECTING = frozenset(
    "exact_match json_field_match json_multi_field_match json_diff levenshtein similarity semantic_similarity".split()
)
_JUDGE = ("llm_judge", _judge, frozenset({"prompt_template", "messages", "prompt", "model", "json_schema"}))
_HOOK = ("webhook", _webhook, frozenset({"webhook_url", "url"}))
_KEYS: Mapping[str, tuple[str, Callable[[Settings], Mapped] | None, frozenset[str]]] = {
    "auto_exact_match": ("exact_match", _plain(), frozenset()),
    "auto_regex_test": ("regex", _regex, frozenset({"regex_pattern", "regex_should_match"})),
    "auto_starts_with": ("starts_with", _plain("prefix"), frozenset({"prefix"})),
    "auto_ends_with": ("ends_with", _plain("suffix"), frozenset({"suffix"})),
    "auto_contains": ("contains", _plain("substring"), frozenset({"substring"})),
    "auto_contains_any": ("contains_any", _plain("substrings"), frozenset({"substrings"})),
    "auto_contains_all": ("contains_all", _plain("substrings"), frozenset({"substrings"})),
    "auto_contains_json": ("contains_json", _plain(), frozenset()),
    "field_match_test": ("json_field_match", _field, frozenset({"json_field"})),
    "json_multi_field_match": ("json_multi_field_match", _plain("fields"), frozenset({"fields"})),
    "auto_json_diff": (
        "json_diff",
        _json_diff,
        frozenset({"compare_schema_only", "predict_keys", "case_insensitive_keys"}),
    ),
    "auto_levenshtein_distance": ("levenshtein", _plain(), frozenset()),
    "auto_similarity_match": ("similarity", _similarity, frozenset({"similarity_threshold"})),
    "auto_semantic_similarity": ("semantic_similarity", _semantic, frozenset({"embedding_model"})),
    "auto_ai_critique": _JUDGE,
    "llm": _JUDGE,
    "auto_webhook_test": _HOOK,
    "hook": _HOOK,
    "match": ("combine", combined, frozenset({"matchers", "score", "success"})),
    "feedback": ("human", _human, frozenset()),
}
