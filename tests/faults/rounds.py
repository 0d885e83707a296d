"""How hard the fault tests try: a sample in `make test`, in full in `make faults`."""

import os

FULL = os.environ.get("PALAVER_FAULT_ROUNDS") == "full"


def rounds(sample: int, full: int) -> int:
    return full if FULL else sample
