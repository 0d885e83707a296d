"""Failing downloads and redirects."""

from pathlib import Path

import pytest

from palaver_jobchat.adaptors import http_fetch
from tests.jobchat.adaptors.fake_registry import FakeRegistry, RegistryResponse, run_registry, wait_until
from tests.jobchat.adaptors.library_factory import EXACT, MISSING, ONE, PACKAGE, TARBALL, TWO, LibraryHarness


def break_download(registry: FakeRegistry, failure: str) -> None:
    """Make the download fail in one of many ways."""
    tarball = registry.responses[TARBALL]
    match failure:
        case "another tarball":
            tarball.body = TWO
        case "slow":
            tarball.hangs = True
        case "slow versions":
            registry.responses[PACKAGE].hangs = True
        case "too large":
            tarball.body = bytes(http_fetch.MAX_BYTES + 1)
        case "no tarball":
            del registry.responses[TARBALL]
        case "failing":
            tarball.status = 500
        case "not in the registry":
            del registry.responses[PACKAGE]
        case "no versions":
            registry.responses[PACKAGE].body = b"[]"
        case "no integrity":
            registry.publish("library", {"1.0.0": ONE}, integrity="")
        case "no description":
            registry.publish("library", {"1.0.0": b"no tarball"})
        case "cut off":
            tarball.headers = {"Content-Length": str(len(ONE) + 5)}
        case "led away":
            registry.responses[TARBALL] = RegistryResponse(status=302, headers={"Location": "http://localhost/x.tgz"})
        case "led to a file":
            registry.responses[TARBALL] = RegistryResponse(status=302, headers={"Location": "file:///x.tgz"})
        case "led in a circle":
            registry.responses[TARBALL] = RegistryResponse(status=302, headers={"Location": TARBALL})
        case _:
            raise ValueError(failure)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("another tarball", "the tarball does not match the integrity hash in the registry"),
        ("too large", "127.0.0.1 sent more than 20,971,520 bytes"),
        ("no tarball", "127.0.0.1 returned status 404"),
        ("failing", "127.0.0.1 returned status 500"),
        ("not in the registry", "127.0.0.1 returned status 404"),
        ("no versions", "cannot decode the registry's response"),
        ("no integrity", "the tarball does not match the integrity hash in the registry"),
        ("no description", "cannot read the tarball"),
        ("cut off", "peer closed connection"),
        ("led away", "127.0.0.1 redirected to http://localhost, which is not allowed"),
        ("led to a file", "127.0.0.1 redirected to file://, which is not allowed"),
        ("led in a circle", "too many redirects from 127.0.0.1"),
    ],
)
async def test_failed_download_gives_missing_docs_and_is_not_retried_at_once(
    tmp_path: Path, registry: FakeRegistry, failure: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry.publish("library", {"1.0.0": ONE})
    break_download(registry, failure)
    library = LibraryHarness(tmp_path, registry.url)

    assert await library.look_up_names("library@1.0.0") == (MISSING, [])
    count = len(registry.requests)
    assert await library.look_up_names("library@1.0.0") == (MISSING, [])
    assert len(registry.requests) == count
    assert library.progress == ["Looking up library@1.0.0"]
    assert reason in caplog.messages[0]
    assert not (tmp_path / "cache").exists()

    registry.publish("library", {"1.0.0": ONE})
    library.time = 3601.0  # Responses of the registry are cached for an hour.
    assert await library.look_up_names("library@1.0.0") == (EXACT, ["one"])


@pytest.mark.parametrize("failure", ["slow", "slow versions"])
async def test_slow_registry_times_out_and_is_not_retried_at_once(
    tmp_path: Path, registry: FakeRegistry, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry.publish("library", {"1.0.0": ONE})
    break_download(registry, failure)
    library = LibraryHarness(tmp_path, registry.url, timeout_s=0.3)

    assert await library.look_up_names("library@1.0.0") == (MISSING, [])
    await wait_until(lambda: bool(caplog.messages))
    count = len(registry.requests)
    assert await library.look_up_names("library@1.0.0") == (MISSING, [])
    assert len(registry.requests) == count
    assert caplog.messages[0].endswith("timed out after 0.3 s. Not retrying for 60 s.")


async def test_failed_download_is_retried_after_a_minute(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE})
    registry.responses[TARBALL].status = 503
    library = LibraryHarness(tmp_path, registry.url)
    await library.look_up_names("library@1.0.0")
    registry.responses[TARBALL].status = 200
    library.time = 59.0

    assert await library.look_up_names("library@1.0.0") == (MISSING, [])
    library.time = 60.0
    assert await library.look_up_names("library@1.0.0") == (EXACT, ["one"])


async def test_unreachable_registry_gives_missing_docs(tmp_path: Path) -> None:
    async with run_registry() as registry:
        url = registry.url

    assert await LibraryHarness(tmp_path, url).look_up_names("library@1.0.0") == (MISSING, [])
    assert await LibraryHarness(tmp_path, url).look_up_names("library@1") == ({"version": "1", "docs": "missing"}, [])


async def test_redirect_of_a_tarball_on_the_same_host_is_followed(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE})
    registry.responses["/elsewhere"] = registry.responses[TARBALL]
    registry.responses[TARBALL] = RegistryResponse(status=302, headers={"Location": "../../../elsewhere"})

    assert await LibraryHarness(tmp_path, registry.url).look_up_names("library@1.0.0") == (EXACT, ["one"])


async def test_tarball_is_fetched_from_the_mirror_if_its_url_names_another_host(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.publish("library", {"1.0.0": ONE}, tarball=f"https://npm.invalid{TARBALL}")

    assert await LibraryHarness(tmp_path, registry.url).look_up_names("library@1.0.0") == (EXACT, ["one"])
