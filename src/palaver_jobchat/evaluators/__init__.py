"""Job Chat's evaluators: every rule of rules/ as `job_<id>`, all of them as `job_rules`, and `job_expected`.

They score suggested code: the job after the answer's edits or, in plain mode, the JavaScript blocks of its text.
Without code, the rules skip (`no_code`); `job_expected` checks whether there should have been some.

Every server loads this module, with or without Job Chat's packages, so that the JavaScript parser is imported with the
first case.

    scores    the suggested code of an answer, and its scores
"""

import asyncio
from typing import Any

from palaver import Case, Score, evaluator


@evaluator
async def job_rules(case: Case) -> list[Score]:
    """Check the suggested code against all rules for jobs. Gives one score per applicable rule, with its name."""
    from palaver_jobchat.evaluators import scores

    docs = await scores.adaptor_docs(case)
    return await asyncio.to_thread(scores.score_all_rules, case, docs)


@evaluator(needs={"expected"})
def job_expected(case: Case) -> Score:
    """Check the answer against the fields of `expected`. The score is the share of checks that pass.

    The fields are edit, code, contains, absent and span.
    """
    from palaver_jobchat.evaluators import scores

    return scores.score_expected(case)


@evaluator(needs={"expected"})
def job_outside_untouched(case: Case) -> Score:
    """Edits only change lines inside the row's `expected.span`."""
    from palaver_jobchat.evaluators import scores

    return scores.score_outside_untouched(case)


def _rule(rule: str, description: str) -> Any:

    async def score(case: Case) -> Score:
        from palaver_jobchat.evaluators import scores

        docs = await scores.adaptor_docs(case)
        return await asyncio.to_thread(scores.score_rule, rule, case, docs)

    score.__doc__ = description
    return evaluator(key=f"job_{rule}")(score)


job_parses = _rule("parses", "The job is valid JavaScript.")
job_no_import = _rule("no_import", "The job has no import, export or require.")
job_top_level_operations = _rule(
    "top_level_operations", "The top level contains only operations, with their `.then` and `.catch`."
)
job_no_top_level_await = _rule("no_top_level_await", "`await` is used only inside functions.")
job_no_alter_state = _rule("no_alter_state", "The job uses `fn` instead of the deprecated `alterState`.")
job_no_state_call = _rule("no_state_call", "No operation is invoked directly with `state`, as in `get(…)(state)`.")
job_no_bare_state = _rule("no_bare_state", "`state` is used only in functions that have a `state` parameter.")
job_lazy_state = _rule("lazy_state", "`$` is used only in the arguments of operations, not inside functions.")
job_returns_state = _rule(
    "returns_state",
    "Functions passed to `fn`, `each`, `fnIf`, `.then` or `.catch`, or as callbacks, return state on every path.",
)
job_keeps_state = _rule("keeps_state", "New state keeps the existing state: `{ ...state, data }`.")
job_no_credentials = _rule("no_credentials", "The job contains no hard-coded password, token, key or other secret.")
job_known_functions = _rule("known_functions", "The adaptor has every function that the job calls.")
job_request_options = _rule("request_options", "Requests of the http adaptor pass the body where its version takes it.")
job_json_path = _rule("json_path", "Paths in strings start with `$`.")
job_no_placeholders = _rule("no_placeholders", "The job has no placeholders for missing code or values.")
job_no_duplicate_declarations = _rule("no_duplicate_declarations", "No name is declared twice in the same scope.")
