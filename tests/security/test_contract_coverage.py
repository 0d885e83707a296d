"""Every implemented security requirement (S1.1 to S9.2) is named by a test in this folder."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
REQUIREMENTS = {
    "S1": range(1, 8),
    "S2": range(1, 9),
    "S3": (1, 2, 5, 6),
    "S4": range(1, 6),
    "S5": range(1, 7),
    "S6": range(1, 7),
    "S7": (1, 4, 5),
    "S8": range(1, 5),
    "S9": (1, 2),
}
PLANNED = {
    "S3.3": "templates of judges",
    "S3.4": "regular expressions and schemas from requests",
    "S5.7": "Job Chat",
    "S7.2": "Markdown in the web",
    "S7.3": "the corpus of payloads, in the web",
    "S9.3": "rights of CI",
}
"""Not implemented yet."""


def test_every_implemented_requirement_is_named_by_a_test() -> None:
    comments = re.findall(r"#\s(S\d\.\d.*)", "\n".join(path.read_text("utf-8") for path in FOLDER.glob("test_*.py")))
    covered = {name for comment in comments for name in re.findall(r"S\d\.\d", comment)}
    expected = {f"{section}.{number}" for section, numbers in REQUIREMENTS.items() for number in numbers}

    assert expected - covered == set()
    assert covered & PLANNED.keys() == set()
