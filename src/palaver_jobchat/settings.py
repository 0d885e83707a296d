"""Job Chat's settings: `PALAVER_JOBCHAT_*`, then the table `[jobchat]` of palaver.toml in the working folder."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import platformdirs

from palaver import PalaverError
from palaver_jobchat.payload import PayloadLimits

PREFIX = "PALAVER_JOBCHAT_"
_LIMIT_PREFIX = "limit_"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Documented in docs/guides/jobchat.md."""

    provider: Literal["anthropic", "openai", "scripted"] = "anthropic"
    model: str = ""
    """Name of the model. By default, the provider's default model, if it has one."""
    base_url: str = ""
    """Address of an OpenAI-compatible endpoint. Anthropic's is read from ANTHROPIC_BASE_URL."""
    api_key: str = ""
    """API key of the provider openai. Anthropic's is read from ANTHROPIC_API_KEY."""
    max_tokens: int = 16_384
    thinking: Literal["off", "adaptive"] = "off"
    retries: int = 2
    timeout: float = 120.0
    """Seconds to wait for the provider's next byte. Retries must also start within this time."""
    adaptors: str = ""
    """Folder or URL with adaptor descriptions."""
    online: bool = True
    """Whether descriptions may be fetched from the npm registry."""
    registry: str = ""
    """Address of the npm registry. By default, read from npm's configuration."""
    cache: str = ""
    """Cache folder. By default, a folder inside the user's cache folder."""
    index: str = ""
    """Index file written by `palaver-jobchat index`."""
    embeddings: str = ""
    """Folder with a model2vec model, or a function as module:function."""
    adaptor_budget: int = 40_000
    docs_budget: int = 12_000
    limits: PayloadLimits = PayloadLimits()

    @property
    def cache_folder(self) -> Path:
        return Path(self.cache).expanduser() if self.cache else platformdirs.user_cache_path("palaver-jobchat")

    def __repr__(self) -> str:
        """Without the key."""
        return f"Settings(provider={self.provider!r}, model={self.model!r})"


def read_settings(env: Mapping[str, str], folder: Path) -> Settings:
    """Return the settings of a process with this environment and working folder. Raises PalaverError."""
    values = _read_table(folder) | {
        name.removeprefix(PREFIX).lower(): value for name, value in env.items() if name.startswith(PREFIX)
    }
    limits = {
        name.removeprefix(_LIMIT_PREFIX): values.pop(name) for name in list(values) if name.startswith(_LIMIT_PREFIX)
    }
    try:
        return msgspec.convert(
            {**{name: _strip(value) for name, value in values.items()}, **({"limits": limits} if limits else {})},
            Settings,
            strict=False,
        )
    except msgspec.ValidationError as error:
        raise PalaverError(f"Invalid Job Chat setting: {error}. See docs/guides/jobchat.md.") from error


def _strip(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _read_table(folder: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads((folder / "palaver.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise PalaverError(f"Cannot read palaver.toml: {error}.") from error
    table = content.get("jobchat", {})
    if not isinstance(table, dict):
        raise PalaverError("Invalid palaver.toml: 'jobchat' must be a table ([jobchat]).")
    return {name.lower(): value for name, value in cast("dict[str, Any]", table).items()}
