"""The demo's workflows: small and offline. Each is a file that an author could have written.

Modules:

    calculator     arithmetic with tools
    echo           returns its inputs
    eliza          the chat bot of 1966
    headline       a workflow that is not a chat
    sample_data    threads, boards, test sets and traces of a new demo
"""

from palaver.demo.calculator import calculator
from palaver.demo.echo import echo
from palaver.demo.eliza import eliza
from palaver.demo.headline import headline

__all__ = ["calculator", "echo", "eliza", "headline"]
