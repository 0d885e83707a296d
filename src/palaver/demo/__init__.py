"""The demo's workflows: small, offline, and written as any author would write them.

Modules:

    calculator     arithmetic with tools
    echo           returns its inputs
    eliza          the chatbot of 1966
    headline       a single-turn workflow
    sample_data    threads, boards, test sets and traces of a new demo
"""

from palaver.demo.calculator import calculator
from palaver.demo.echo import echo
from palaver.demo.eliza import eliza
from palaver.demo.headline import headline

__all__ = ["calculator", "echo", "eliza", "headline"]
