"""Settings: the environment overrides the file, and invalid values are reported."""

from pathlib import Path

import pytest

from palaver import PalaverError
from palaver_jobchat.payload import PayloadLimits
from palaver_jobchat.settings import Settings, read_settings


def test_defaults_apply_when_nothing_is_set(tmp_path: Path) -> None:
    assert read_settings({"HOME": "/"}, tmp_path) == Settings()


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    (tmp_path / "palaver.toml").write_text('port = 1\n[jobchat]\nmodel = "m"\nretries = 5\nlimit_log = 7\n')
    env = {"PALAVER_JOBCHAT_RETRIES": "0", "PALAVER_JOBCHAT_ONLINE": "0", "PALAVER_JOBCHAT_LIMIT_CONTENT": "9"}

    assert read_settings(env, tmp_path) == Settings(
        model="m", retries=0, online=False, limits=PayloadLimits(content=9, log=7)
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("jobchat = 5", "Invalid palaver.toml: 'jobchat' must be a table"),
        ("[jobchat", "Cannot read palaver.toml"),
        ("[jobchat]\nmodle = 'm'", "Invalid Job Chat setting: Object contains unknown field `modle`"),
        ("[jobchat]\nprovider = 'x'", "Invalid Job Chat setting: Invalid enum value 'x'"),
    ],
)
def test_invalid_settings_are_rejected_with_a_message(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "palaver.toml").write_text(content)

    with pytest.raises(PalaverError, match=message.replace("[", r"\[")):
        read_settings({}, tmp_path)


def test_repr_of_settings_hides_the_api_key() -> None:
    assert "secret" not in repr(Settings(api_key="secret"))
