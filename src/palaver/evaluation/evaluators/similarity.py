"""similarity: how alike the text and what is expected are, letter by letter."""

from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator


@evaluator(title="Similarity", needs={"expected"}, threshold=0.5)
def similarity(case: Case, aim: Aim) -> float:
    """The share of letters that the text and what is expected have in common, in order (the indel ratio)."""
    from rapidfuzz.distance import Indel

    expected = aim.folded(aim.expected_text(case))
    return Indel.normalized_similarity(aim.folded(aim.text(case)), expected)
