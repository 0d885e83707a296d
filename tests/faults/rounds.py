"""How hard the fault tests try: a sample in `make test`, in full in `make faults`."""

import os

IS_FULL_RUN = os.environ.get("PALAVER_FAULT_ROUNDS") == "full"


def round_count(sample: int, full: int) -> int:
    return full if IS_FULL_RUN else sample
