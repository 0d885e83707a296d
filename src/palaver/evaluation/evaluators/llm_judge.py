"""llm_judge: a model, or a workflow, says whether an answer is good, by a question of the caller's."""

from typing import Annotated, Any

from msgspec import Meta

from palaver.evaluation.judging import verdicts
from palaver.evaluation.judging.prompting import template
from palaver.evaluation.judging.verdicts import JudgeName, Prompt, Retries, Samples, Scale
from palaver.evaluation.matching.expecting import JUDGE
from palaver.evaluation.matching.json_schemas import check_schema
from palaver.evaluation.matching.marks import Marks
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach


def _check(parameters: Any, reach: Reach) -> None:
    reach.check_judge(parameters.judge, "/parameters/judge")
    template(parameters.prompt, "/parameters/prompt")
    verdicts.check_scale(parameters.scale)
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(title="LLM judge", threshold=0.5, check=_check)
async def llm_judge(
    case: Case,
    aim: Aim,
    reach: Reach,
    *,
    judge: JudgeName = JUDGE,
    prompt: Prompt,
    schema: Annotated[dict[str, Any] | None, Meta(description="What it has to answer, as a JSON Schema.")] = None,
    scale: Scale = None,
    samples: Samples = 1,
    retries: Retries = 2,
) -> Any:
    """What a judge says of the answer: whether it passed, a score from 0 to 1, and why.

    Slots of the prompt: {{inputs.x}}, {{text}}, {{expected}}, {{conversation}}, {{tool_calls}}. An answer that does
    not fit the schema is asked for again; a judge that cannot be reached is an error, and no score.
    """
    wanted = schema or verdicts.schema_of(scale)
    said: list[Any] = []
    for _ in range(samples):
        marks = Marks()
        asked = template(prompt, "").filled(case, aim, marks)
        said.append(await reach.judge(judge, f"{marks.rule}\n\n{asked}", schema=wanted, retries=retries))
    return verdicts.score_of(said, scale)
