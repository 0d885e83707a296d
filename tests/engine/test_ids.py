"""Random digits come in lots, and no two are the same."""

import os
import re
import sys

import pytest

from palaver.engine.ids import RandomHex


def test_digits_are_hex_of_the_length_asked_for_and_never_the_same() -> None:
    chance = RandomHex()
    drawn = [chance.hex(16) for _ in range(2_000)]  # More than a lot holds.

    assert all(re.fullmatch(r"[0-9a-f]{16}", digits) for digits in drawn)
    assert len(set(drawn)) == len(drawn)
    assert [len(chance.hex(digits)) for digits in (1, 48, 0, 7)] == [1, 48, 0, 7]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 warns of forks where threads run")
def test_a_process_that_forks_does_not_repeat_its_parent() -> None:
    chance = RandomHex()
    chance.hex(16)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, chance.hex(16).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 16).decode()
    os.close(read)
    os.close(write)

    assert theirs != chance.hex(16)
