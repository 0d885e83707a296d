"""A plain function as a workflow: its annotations declare the inputs and the output, and every call is validated.

palaver serve examples/plain_function.py
"""

from dataclasses import dataclass
from typing import Annotated

from palaver import Failure, Parameter, workflow


@dataclass
class Bill:
    total: float
    each: float


@workflow
def split_bill(
    amount: float,
    people: int = 2,
    tip: Annotated[float, Parameter(description="Tip in percent.")] = 10.0,
) -> Bill:
    """Splits a bill evenly.

    Args:
        amount: the price of the meal
        people: the number of people who share it
    """
    if people < 1:
        raise Failure("nobody_pays", "At least one person has to pay the bill.", status=422)
    total = amount * (1 + tip / 100)
    return Bill(total=round(total, 2), each=round(total / people, 2))
