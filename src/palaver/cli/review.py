"""palaver review: list reviews, and export their answers as lines of JSON."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.database import iterate_pages, load_all_pages, use_database
from palaver.cli.options import db_option, json_option, project_option
from palaver.cli.output import format_count, format_json, open_output
from palaver.outbound import printable

if TYPE_CHECKING:
    from palaver.storage.evaluations.reviews import Review, ReviewAnswer, ReviewItem


@click.group()
def command() -> None:
    """List reviews and export their answers.

    \b
    Examples:
      palaver review list
      palaver review export rv_01k… -o answers.jsonl
    """


@command.command(name="list")
@click.option("--evaluation", "--run", "evaluation", help="Only reviews of this evaluation.")
@project_option("reviews")
@json_option
@db_option
def list_reviews(evaluation: str | None, project: str, as_json: bool, db: str | None) -> None:
    """List reviews, newest first.

    \b
    Examples:
      palaver review list
      palaver review list --evaluation ev_01k… --json
    """
    from palaver.storage.evaluations import reviews as stored  # Imported late: --help must not wait for SQLAlchemy.

    reviews = load_all_pages(db, stored.list_reviews, project, stored.ReviewFilters(evaluation=evaluation))
    if as_json:
        click.echo(format_json([_review_json(review) for review in reviews]))
        return
    for review in reviews:
        items, answers = format_count(review.total, "item"), format_count(review.answers, "answer")
        click.echo(f"{review.id}  {review.state:<6}  {items:>12}  {answers:>14}  {printable(review.name)}")
    if not reviews:
        click.echo("No reviews.")


@command.command(name="export")
@click.argument("review")
@click.option("-o", "--output", metavar="FILE", help="Output file (default: standard output).")
@project_option("reviews")
@db_option
def export_review(review: str, output: str | None, project: str, db: str | None) -> None:
    """Export the answers of REVIEW, one JSON object per line.

    A corrected answer has "counts": false and is followed by its correction.

    \b
    Examples:
      palaver review export rv_01k… > answers.jsonl
    """
    with open_output(output, sys.stdout.buffer.write) as write:
        answer_count = asyncio.run(_export(db, project, review, write))
    if output not in (None, "-"):
        click.echo(f"{output}: {format_count(answer_count, 'answer')}.", err=True)


def _review_json(review: "Review") -> dict[str, Any]:
    fields = msgspec.structs.asdict(review)
    fields["run"] = fields.pop("evaluation")
    return fields


async def _export(db: str | None, project: str, review: str, write: Callable[[bytes], object]) -> int:
    from palaver.storage.evaluations import reviews

    line_count = 0
    async with use_database(db) as database:
        review_row = await database.read(reviews.get_review, project, review)
        async for items in iterate_pages(database, reviews.list_items, project, review):
            answers = await database.read(reviews.list_answers, project, review, [item.place for item in items])
            for item in items:
                for line in _answer_lines(review_row, item, answers[item.place]):
                    write(line + b"\n")
                    line_count += 1
    return line_count


def _answer_lines(review: "Review", item: "ReviewItem", answers: "list[ReviewAnswer]") -> Iterator[bytes]:
    last_numbers = {answer.reviewer: answer.number for answer in answers}
    for answer in answers:
        fields: dict[str, Any] = {
            "review": review.id,
            "item": f"item_{item.place}",
            "run": review.evaluation,
            "result": None if item.cell is None else f"cell_{item.cell}",
            "trace_id": item.trace,
            "reviewer": answer.reviewer,
            "answers": answer.answers,
            "comment": answer.comment,
            "counts": last_numbers[answer.reviewer] == answer.number,
            "created_at": answer.created_at,
        }
        yield msgspec.json.encode(fields)
