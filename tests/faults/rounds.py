"""The number of rounds of a fault test: a sample in `make test`, more in `make faults`."""

import os

IS_FULL_RUN = os.environ.get("PALAVER_FAULT_ROUNDS") == "full"


def round_count(sample: int, full: int) -> int:
    return full if IS_FULL_RUN else sample
