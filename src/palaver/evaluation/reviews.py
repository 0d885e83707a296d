"""Human reviews: choose the items, measure agreement, and turn answers into scores."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import combinations
from math import fsum
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, delete, insert, select, update

from palaver.errors import InvalidValue, NotFound
from palaver.evaluation.plan.plan import Plan
from palaver.evaluation.plan.request import NAME_PATTERN
from palaver.evaluation.review_questions import Question, QuestionType
from palaver.evaluation.score import Score
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.results import ResultFilters
from palaver.storage.evaluations.reviews import EvaluatorVerdict, NewReviewItem, ReviewAnswer, ReviewItem
from palaver.storage.evaluations.tables import evaluation_results as results
from palaver.storage.evaluations.tables import evaluation_scores as scores
from palaver.storage.pagination import Window
from palaver.storage.schema import storable_text
from palaver.storage.spans import filters as span_filters
from palaver.storage.spans import queries as span_queries
from palaver.storage.spans.queries import SpanQuery
from palaver.storage.spans.tables import HEAD, spans

MAX_ITEMS = 10_000
_PAGE_SIZE = 500
_ShortText = Annotated[str, Meta(max_length=200, pattern=NAME_PATTERN)]
_Timestamp = Annotated[datetime, Meta(tz=True)]


class ResultSelection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Filters for the results of an evaluation, as in its list of results."""

    evaluator: _ShortText | None = None
    """Name of an evaluator's scores."""
    passed: bool | None = None
    """Whether the result passed, according to `evaluator`, or to any evaluator if omitted."""
    status: Literal["done", "failed"] = "done"
    search: _ShortText | None = None
    """Text to search for."""


class ItemSelection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The items to review: results of an evaluation, or traces selected by id or filter."""

    run: _ShortText | None = None
    """Id of an evaluation."""
    variant: _ShortText | None = None
    """Name of a variant of the evaluation."""
    filter: ResultSelection = ResultSelection()
    traces: Annotated[list[str], Meta(min_length=1, max_length=MAX_ITEMS)] | dict[str, Any] | None = None
    """Trace ids, or a trace filter; `{}` selects all traces."""
    search: Annotated[str, Meta(max_length=1_000)] | None = None
    """Words to search for in traces."""
    since: _Timestamp | None = msgspec.field(default=None, name="from")
    """Traces that started at or after this time."""
    until: _Timestamp | None = msgspec.field(default=None, name="to")
    """Traces that started before this time."""
    sample: Annotated[int, Meta(ge=1, le=MAX_ITEMS)] | None = None
    """Maximum number of items, drawn at random."""
    seed: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0
    """Random seed of the sample."""


class ReviewSelection(msgspec.Struct, frozen=True):
    evaluation: str | None
    plan: Plan | None
    items: Sequence[NewReviewItem]


def select_items(db: Connection, project: str, request: ItemSelection) -> ReviewSelection:
    """Select the items of a review. Raises NotFound for an unknown evaluation or trace, InvalidValue without items."""
    if (request.run is None) == (request.traces is None):
        raise InvalidValue("Exactly one of 'run' (an evaluation) and 'traces' is required.", pointer="/items")
    plan = None
    if request.run is not None:
        _, stored_plan = evaluations.get_plan(db, project, request.run)
        plan = msgspec.convert(stored_plan, Plan)
        items = _select_results(db, project, request.run, plan, request)
    else:
        items = [NewReviewItem(trace=trace) for trace in _select_traces(db, project, request)]
    if request.sample is not None:
        items = _sample_items(items, request.sample, request.seed)
    if not items:
        raise InvalidValue("No results or traces match the selection.", pointer="/items")
    if len(items) > MAX_ITEMS:
        raise InvalidValue(f"A review can have at most {MAX_ITEMS:,} items. Use a sample.", pointer="/items")
    return ReviewSelection(request.run, plan, items)


def human_questions(plan: Plan) -> list[Question]:
    """Return the questions of the `human` evaluators of a run."""
    evaluators = [evaluator for evaluator in plan.evaluators if evaluator.key == "human"]
    questions = [question for evaluator in evaluators for question in evaluator_questions(evaluator.parameters)]
    return list({question.key: question for question in questions}.values())


def evaluator_questions(parameters: Any) -> list[Question]:
    questions = parameters.get("questions")
    return [Question(key="correct")] if questions is None else msgspec.convert(questions, list[Question])


def _select_results(db: Connection, project: str, run: str, plan: Plan, request: ItemSelection) -> list[NewReviewItem]:
    names, filters = [variant.name for variant in plan.variants], request.filter
    if request.variant is not None and request.variant not in names:
        message = f"Variant {request.variant!r} not found. Available: {', '.join(names)}."
        raise InvalidValue(message, pointer="/items/variant")
    result_filters = ResultFilters(
        variant=None if request.variant is None else names.index(request.variant),
        status=filters.status,
        evaluator=filters.evaluator,
        passed=filters.passed,
        search=filters.search,
    )
    items: list[NewReviewItem] = []
    after: str | None = None
    while True:
        page = evaluation_results.list_results(db, project, run, result_filters, Window(_PAGE_SIZE, after))
        items += [NewReviewItem(cell=result.cell, seq=result.seq, trace=result.trace_id) for result in page.data]
        after = page.next
        if after is None or (len(items) > MAX_ITEMS and request.sample is None):
            return items


def _select_traces(db: Connection, project: str, request: ItemSelection) -> list[str]:
    if isinstance(request.traces, list):
        trace_ids = list(dict.fromkeys(trace.lower() for trace in request.traces))
        existing: set[str] = set()
        for first in range(0, len(trace_ids), _PAGE_SIZE):
            query_by_id = select(spans.c.trace_id).where(spans.c.project == project, spans.c.head == HEAD)
            existing.update(db.scalars(query_by_id.where(spans.c.trace_id.in_(trace_ids[first : first + _PAGE_SIZE]))))
        if missing := next((trace for trace in request.traces if trace.lower() not in existing), None):
            raise NotFound(f"Trace {missing[:80]!r} not found.")
        return trace_ids
    trace_filter = span_filters.parse_filter(request.traces, "/items/traces") if request.traces else None
    query = SpanQuery(filter=trace_filter, search=request.search, since=request.since, until=request.until)
    matching = select(spans.c.trace_id).where(spans.c.head == HEAD, *span_queries.query_clauses(db, project, query))
    newest_first = matching.order_by(spans.c.start.desc(), spans.c.span_id)
    return list(db.scalars(newest_first if request.sample is not None else newest_first.limit(MAX_ITEMS + 1)))


def _sample_items(items: Sequence[NewReviewItem], count: int, seed: int) -> list[NewReviewItem]:
    """Draw a random sample in the original order, reproducible by seed."""

    def rank(item: NewReviewItem) -> bytes:
        return blake2b(f"{seed}:{item.trace if item.cell is None else item.cell}".encode(), digest_size=8).digest()

    sample = sorted(range(len(items)), key=lambda index: rank(items[index]))[:count]
    return [items[index] for index in sorted(sample)]


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of two raters; None if one of them always gives the same answer."""
    first_counts, second_counts = Counter(first for first, _ in pairs), Counter(second for _, second in pairs)
    if len(first_counts) < 2 or len(second_counts) < 2:
        return None
    count = len(pairs)
    agreed = count * sum(first == second for first, second in pairs)  # Times `count`, as `expected_by_chance` is.
    expected_by_chance = sum(first_counts[answer] * second_counts[answer] for answer in first_counts)
    return (agreed - expected_by_chance) / (count * count - expected_by_chance)


def weighted_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    first, second = [x for x, _ in pairs], [y for _, y in pairs]
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    count = len(pairs)
    first_mean, second_mean = fsum(first) / count, fsum(second) / count
    observed = fsum((x - y) ** 2 for x, y in pairs) / count
    # The mean squared difference over all pairs of one answer of each rater.
    spread = fsum((x - first_mean) ** 2 for x in first) + fsum((y - second_mean) ** 2 for y in second)
    return 1 - observed / (spread / count + (first_mean - second_mean) ** 2)


class ScoreSlot(msgspec.Struct, frozen=True, kw_only=True):
    """A question whose answers become the score of a `human` evaluator."""

    question: Question
    evaluator: int
    pending_name: str
    """Name of the score that is pending until someone has answered."""
    name: str
    """Name of the score afterwards."""
    threshold: float | None


def find_score_slots(plan: Plan, questions: Iterable[Question]) -> list[ScoreSlot]:
    """Find the questions that belong to `human` evaluators, by the evaluator's name or by the question's key."""
    by_key = {question.key: question for question in questions}
    slots: list[ScoreSlot] = []
    for index, evaluator in enumerate(plan.evaluators):
        if evaluator.key != "human":
            continue
        keys = [question.key for question in evaluator_questions(evaluator.parameters)]
        names = {key: f"{evaluator.name}.{key}" if len(keys) > 1 else evaluator.name for key in keys}
        names[evaluator.name] = evaluator.name
        threshold = evaluator.parameters.get("threshold")
        for key, name in names.items():
            if key in by_key and all(slot.name != name or slot.evaluator != index for slot in slots):
                slot = ScoreSlot(
                    question=by_key[key], evaluator=index, pending_name=evaluator.name, name=name, threshold=threshold
                )
                slots.append(slot)
    return slots


def score_answers(slot: ScoreSlot, answers: Sequence[Any]) -> Score | None:
    """Combine all answers to a question into a score; None without answers."""
    if not answers:
        return None
    count = f"{len(answers)} {'reviewer' if len(answers) == 1 else 'reviewers'}"
    details: Mapping[str, Any] = {"answers": list(answers)}
    if slot.question.type in ("boolean", "score"):
        mean = fsum(_scale_answer(slot.question, value) for value in answers) / len(answers)
        # A draw has not passed.
        majority = mean > 0.5 if slot.question.type == "boolean" else None
        passed = mean >= slot.threshold if slot.threshold is not None else majority
        return Score(passed=passed, score=mean, reason=f"by {count}", details=details)
    if slot.question.type == "choice":
        label = Counter(cast("Sequence[str]", answers)).most_common(1)[0][0]
        return Score(label=label, reason=f"by {count}", details=details)
    return Score(reason="\n".join(map(str, answers))[:2_000], details=details)


def _scale_answer(question: Question, value: Any) -> float:
    """Scale an answer to 0..1 if the question has a range."""
    if question.range is None:
        return float(value)
    low, high = question.range
    return (value - low) / (high - low)


def store_review_score(
    db: Connection,
    project: str,
    evaluation: str,
    item: ReviewItem,
    slots: Sequence[ScoreSlot],
    answers: Sequence[ReviewAnswer],
    now: datetime,
) -> bool:
    """Store the latest answers of all reviewers as the item's score. False if the result is gone or was replaced."""
    if not slots or item.cell is None:
        return False
    evaluations.lock_evaluation(db, project, evaluation)
    key = (results.c.project == project, results.c.evaluation == evaluation, results.c.cell == item.cell)
    if db.scalar(select(results.c.seq).where(*key)) != item.seq:
        return False
    last_answers = {answer.reviewer: answer.answers for answer in answers}
    for slot in slots:
        values = [by_key[slot.question.key] for by_key in last_answers.values() if slot.question.key in by_key]
        if (score := score_answers(slot, values)) is not None:
            _store_score(db, project, evaluation, item.cell, slot, score)
    evaluations.update_evaluation(db, project, evaluation, now)
    return True


def _store_score(db: Connection, project: str, evaluation: str, cell: int, slot: ScoreSlot, score: Score) -> None:
    score_key = (scores.c.project == project, scores.c.evaluation == evaluation, scores.c.cell == cell)
    score_key = (*score_key, scores.c.evaluator == slot.evaluator)
    values = {
        "status": "scored",
        "passed": score.passed,
        "score": score.score,
        "label": None if score.label is None else storable_text(score.label),
        "reason": storable_text(score.reason),
        "details": score.details,
    }
    if slot.name != slot.pending_name:
        db.execute(delete(scores).where(*score_key, scores.c.name == storable_text(slot.pending_name)))
    if not db.execute(
        update(scores).where(*score_key, scores.c.name == storable_text(slot.name)).values(values)
    ).rowcount:
        row = {"project": project, "evaluation": evaluation, "cell": cell, "evaluator": slot.evaluator}
        db.execute(insert(scores).values(**row, name=storable_text(slot.name), seconds=0.0, **values))


ItemAnswers = Mapping[int, Any]
"""Answers by item."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of two raters on a question."""

    question: str
    type: QuestionType
    raters: tuple[str, str]
    kind: Literal["reviewers", "judge"]
    """Two reviewers, or a reviewer and a judge of the evaluation."""
    n: int
    """Number of items that both raters answered."""
    percent: float | None
    """Percentage of these items on which their answers agree."""
    kappa: float | None
    """Cohen's kappa, with quadratic weights for scores. Null if a rater always gives the same answer."""


def measure_agreement(
    questions: Iterable[Question],
    answers_by_reviewer: Mapping[str, Mapping[int, Mapping[str, Any]]],
    judges: Mapping[str, Mapping[int, EvaluatorVerdict]],
) -> list[Agreement]:
    """Measure the agreement of each pair of reviewers, and of each reviewer with each judge, except on free text.

    `answers_by_reviewer` holds answers by reviewer and item; `judges`, verdicts by name and item.
    """
    agreements: list[Agreement] = []
    for question in questions:
        if question.type == "text":
            continue
        by_name = {name: _answers_to(question.key, items) for name, items in sorted(answers_by_reviewer.items())}
        by_name = {name: answers for name, answers in by_name.items() if answers}
        for first, second in combinations(by_name, 2):
            agreements.append(_compare_raters(question, (first, second), "reviewers", by_name[first], by_name[second]))
        for judge, verdicts in judges.items():
            for name, answers in by_name.items():
                judge_answers = _judge_answers(question, verdicts, answers.values())
                if judge_answers:
                    agreements.append(_compare_raters(question, (name, judge), "judge", answers, judge_answers))
    return agreements


def _answers_to(key: str, items: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
    return {index: answers[key] for index, answers in items.items() if key in answers}


def _compare_raters(
    question: Question,
    raters: tuple[str, str],
    kind: Literal["reviewers", "judge"],
    first: ItemAnswers,
    second: ItemAnswers,
) -> Agreement:
    pairs = [(first[index], second[index]) for index in sorted(first.keys() & second.keys())]
    equal_count = sum(x == y for x, y in pairs)
    compute_kappa: Callable[[Sequence[Any]], float | None] = weighted_kappa if question.type == "score" else cohen_kappa
    return Agreement(
        question=question.key,
        type=question.type,
        raters=raters,
        kind=kind,
        n=len(pairs),
        percent=100 * equal_count / len(pairs) if pairs else None,
        kappa=compute_kappa(pairs),
    )


def _judge_answers(
    question: Question, verdicts: Mapping[int, EvaluatorVerdict], answers: Iterable[Any]
) -> dict[int, Any]:
    """Convert a judge's verdicts to answers: scores in the question's range, rounded if all answers are integers."""
    low, high = question.range or (0.0, 1.0)
    is_whole = all(float(value).is_integer() for value in (low, high, *answers)) if question.type == "score" else False

    def convert(verdict: EvaluatorVerdict) -> Any:
        match question.type:
            case "boolean":
                return verdict.passed
            case "choice":
                return verdict.label
            case _:
                if verdict.score is None:
                    return None
                score = low + verdict.score * (high - low)
                return float(round(score)) if is_whole else score

    return {index: value for index, verdict in verdicts.items() if (value := convert(verdict)) is not None}
