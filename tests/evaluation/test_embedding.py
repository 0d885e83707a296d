"""Vectors are remembered by what their texts hold, and not without end."""

from collections.abc import Sequence

from palaver.evaluation.embedding import Vectors


class Maker:
    """Gives each text a vector, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        return [[float(len(text)), 1.0] for text in texts]


async def test_the_same_text_is_asked_for_once_for_each_model() -> None:
    make, vectors = Maker(), Vectors()

    found = [list(one) for one in await vectors.of(["a", "bb", "a"], "m", make)]
    again = [list(one) for one in await vectors.of(["bb", "\ud800"], "m", make)]
    await vectors.of(["a"], "other", make)

    assert found == [[1, 1], [2, 1], [1, 1]]
    assert again == [[2, 1], [1, 1]]
    assert make.asked == [["a", "bb"], ["\ud800"], ["a"]]


async def test_the_longest_unused_is_forgotten_first() -> None:
    make, vectors = Maker(), Vectors(most=4)

    for text in ("a", "b", "a", "c", "a", "b"):
        await vectors.of([text], "m", make)

    assert make.asked == [["a"], ["b"], ["c"], ["b"]]
