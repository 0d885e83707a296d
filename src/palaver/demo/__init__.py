"""The demo's workflows: small, offline and real. Each is a file that an author could have written."""

from palaver.demo.calculator import calculator
from palaver.demo.echo import echo
from palaver.demo.eliza import eliza
from palaver.demo.headline import headline

__all__ = ["calculator", "echo", "eliza", "headline"]
