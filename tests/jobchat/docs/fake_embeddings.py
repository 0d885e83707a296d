"""Small embedding models: a real model2vec model, and a user's functions."""

from pathlib import Path

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

MEANINGS = {
    "lend": (1, 0, 0),
    "lending": (1, 0, 0),
    "borrow": (1, 0, 0),
    "loans": (1, 0, 0),
    "book": (0.5, 0.5, 0),
    "books": (0.5, 0.5, 0),
    "shelves": (0, 1, 0),
    "shelf": (0, 1, 0),
    "sorted": (0, 1, 0),
    "paper": (0, 0, 1),
    "wood": (0, 0, 1),
    "patient": (0.6, 0.3, 0.1),
}


def save_model(folder: Path, *, reverse: bool = False) -> Path:
    """Save a model2vec model that knows a few words. `reverse` gives them other vectors."""
    words = ["[UNK]", *MEANINGS]
    rows = [(0, 0, 0), *(meaning[::-1] if reverse else meaning for meaning in MEANINGS.values())]
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    StaticModel(np.array(rows, dtype=np.float32), tokenizer).save_pretrained(folder)
    return folder


def by_length(texts: list[str]) -> list[list[float]]:
    """Texts of equal length are similar."""
    if is_away:
        raise ConnectionError("away")
    return [[1.0, len(text) / 100] for text in texts]


is_away = False
no_function = 5
