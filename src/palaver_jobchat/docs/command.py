"""What `palaver-jobchat index PATH [-o FILE]` does and prints."""

from collections.abc import Iterator
from pathlib import Path

from palaver_jobchat.docs.embedding import embedding
from palaver_jobchat.docs.index import Progress, Report, index
from palaver_jobchat.settings import PREFIX, Settings

DEFAULT = "docs.db"
"""In the working folder, where neither -o nor the setting names another file."""


def index_folder(
    folder: Path,
    output: Path | None,
    settings: Settings,
    *,
    progress: Progress = lambda _what, _done, _of: None,
) -> list[str]:
    """Index a folder, with vectors if EMBEDDINGS is set; the lines to print. Raises PalaverError where it cannot."""
    file = output or Path(settings.index or DEFAULT).expanduser()
    report = index(folder, file, embeddings=embedding(settings.embeddings), progress=progress)
    return list(_lines(folder, file, report, settings))


def _lines(folder: Path, file: Path, report: Report, settings: Settings) -> Iterator[str]:
    files = report.added + report.changed + report.kept
    vectors = f", {report.vectors:,} vectors made" if settings.embeddings else ""
    yield (
        f"{folder}: {_many(files, 'file')}, {_many(report.chunks, 'piece')} ({report.added:,} added, "
        f"{report.changed:,} changed, {report.removed:,} removed, {report.kept:,} as before{vectors})."
    )
    for problem in report.problems:
        yield f"  {problem.path} {problem.what}."
    if not files:
        yield "There is no Markdown in this folder: nothing will be found."
    is_set = bool(settings.index) and Path(settings.index).expanduser().resolve() == file.resolve()
    yield f"Index: {file}" + ("." if is_set else f". To search it, set {PREFIX}INDEX={file}")


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
