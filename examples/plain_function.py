"""A plain function as a workflow: its annotations say what it takes and gives, and every call is checked.

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
    tip: Annotated[float, Parameter(description="What comes on top, in percent.")] = 10.0,
) -> Bill:
    """Shares a bill evenly.

    Args:
        amount: what the meal costs
        people: how many share it
    """
    if people < 1:
        raise Failure("nobody_pays", "A bill needs somebody to pay it.", status=422)
    total = amount * (1 + tip / 100)
    return Bill(total=round(total, 2), each=round(total / people, 2))
