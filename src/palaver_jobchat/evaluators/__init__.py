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
    """All rules for good jobs, on the suggested code: a score for each that can judge it, named by the rule."""
    from palaver_jobchat.evaluators import scores

    docs = await scores.adaptor_docs(case)
    return await asyncio.to_thread(scores.score_all_rules, case, docs)


@evaluator(needs={"expected"})
def job_expected(case: Case) -> Score:
    """Every key that `expected` gives: edit, code, contains, absent, span. The score is the share that holds."""
    from palaver_jobchat.evaluators import scores

    return scores.score_expected(case)


@evaluator(needs={"expected"})
def job_outside_untouched(case: Case) -> Score:
    """An edit leaves alone all lines of the job but those that the row's `expected.span` names."""
    from palaver_jobchat.evaluators import scores

    return scores.score_outside_untouched(case)


def _rule(rule: str, description: str) -> Any:

    async def score(case: Case) -> Score:
        from palaver_jobchat.evaluators import scores

        docs = await scores.adaptor_docs(case)
        return await asyncio.to_thread(scores.score_rule, rule, case, docs)

    score.__doc__ = description
    return evaluator(key=f"job_{rule}")(score)


job_parses = _rule("parses", "The job is JavaScript.")
job_no_import = _rule("no_import", "There is no import, export or require.")
job_top_level_operations = _rule(
    "top_level_operations", "Only operations stand at the top level, each with its `.then` and `.catch`."
)
job_no_top_level_await = _rule("no_top_level_await", "`await` stands inside functions only.")
job_no_alter_state = _rule("no_alter_state", "`fn` is used, not `alterState`.")
job_no_state_call = _rule("no_state_call", "No operation is called with state by hand.")
job_no_bare_state = _rule("no_bare_state", "`state` is used only in functions that take it.")
job_lazy_state = _rule("lazy_state", "`$` stands only in the arguments of operations, and not in functions.")
job_returns_state = _rule(
    "returns_state",
    "Functions given to `fn`, `each`, `fnIf`, `.then`, `.catch` or as callback return state on every path.",
)
job_keeps_state = _rule("keeps_state", "A new state keeps the old one: `{ ...state, data }`.")
job_no_credentials = _rule("no_credentials", "No password, token, key or secret is written into the job.")
job_known_functions = _rule("known_functions", "Every function that the job calls is one of its adaptor.")
job_json_path = _rule("json_path", "Paths given as text begin with `$`.")
job_no_placeholders = _rule("no_placeholders", "Nothing stands for code or values that are still to be written.")
job_no_duplicate_declarations = _rule("no_duplicate_declarations", "No name is declared twice in the same place.")
