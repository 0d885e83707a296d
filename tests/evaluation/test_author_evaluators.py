"""An author's evaluator over HTTP: from a served file to the list of evaluators and a trial."""

from palaver import Case, chat, evaluator
from palaver.testing import client


@chat
def tutor(messages: list[object]) -> str:
    return "Please go on."


@evaluator(key="team.polite", title="Polite", threshold=0.5)
def polite(case: Case, words: list[str] = ["please"]) -> float:  # noqa: B006 - as an author writes it
    """How many polite words there are."""
    return sum(term in case.text.casefold() for term in words) / len(words)


async def test_an_authors_evaluator_is_listed_and_can_be_tried() -> None:
    async with client(tutor, evaluators=[polite]) as http:
        listing = (await http.get("/api/evaluators")).text
        body = {"parameters": {"words": ["please", "thanks"]}, "case": {"output": "Please."}}
        response = await http.post("/api/evaluators/team.polite/try", json=body)
        refused = await http.post("/api/evaluators/team.polite/try", json={"parameters": {"word": 1}, "case": {}})

    assert '"team.polite"' in listing
    assert response.status_code == 200
    assert {key: response.json()[key] for key in ("evaluator", "status", "passed", "score")} == {
        "evaluator": "team.polite",
        "status": "scored",
        "passed": True,
        "score": 0.5,
    }
    assert (refused.status_code, refused.json()["error"]) == (
        422,
        {
            "code": "invalid_value",
            "message": "Evaluator 'team.polite': unknown parameter 'word'. Available: words, threshold, name.",
            "path": "/parameters/word",
        },
    )
