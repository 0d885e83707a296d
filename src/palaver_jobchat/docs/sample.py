"""The documentation that comes with Job Chat, for those who have indexed none: a few pages about writing jobs."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from palaver_jobchat.docs.embedding import Embedding
from palaver_jobchat.docs.index import SHAPE, index
from palaver_jobchat.docs.reading import Document, documents

PAGES = Path(__file__).parent.parent / "data" / "docs"


def sample_index(cache: Path, *, embeddings: Embedding | None = None) -> Path:
    """The index of our own pages, made in the cache folder where it is not there yet."""
    file = cache / f"docs-{_digest()}.sqlite"
    is_there = file.exists()
    if is_there and not _is_sound(file):
        file.unlink(missing_ok=True)
        is_there = False
    if not is_there or embeddings is not None:
        # If it is there, only the vectors may be missing, or be another model's.
        index(PAGES, file, embeddings=embeddings, wait=5.0)
    return file


def _digest() -> str:
    """Of the pages, so that two versions of this program can share a cache."""
    pages = [f"{page.path} {page.digest}" for page in documents(PAGES) if isinstance(page, Document)]
    return sha256("\n".join([f"{SHAPE}", *pages]).encode()).hexdigest()[:12]


def _is_sound(file: Path) -> bool:
    """Whether a file in the cache, which nobody looks after, is an index that can be read."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
            return state == "ok" and database.execute("SELECT 1 FROM about").fetchone() is not None
    except sqlite3.DatabaseError:
        return False
