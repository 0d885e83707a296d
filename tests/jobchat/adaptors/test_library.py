"""The lookup of descriptions, with a fake registry behind a real server."""

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from palaver_jobchat.adaptors.library import SAMPLES
from palaver_jobchat.adaptors.names import Adaptor
from tests.jobchat.adaptors.fake_registry import FakeRegistry, RegistryResponse, describe, package, wait_until
from tests.jobchat.adaptors.library_factory import EXACT, MISSING, ONE, PACKAGE, TARBALL, TWO, LibraryHarness


@pytest.mark.parametrize(
    ("text", "meta", "names"),
    [
        ("library@1.2.0", {"version": "1.2.0", "docs": "exact"}, ["two"]),
        ("library", {"version": "2.0.0", "docs": "exact"}, ["three"]),
        ("library@latest", {"version": "2.0.0", "docs": "exact"}, ["three"]),
        ("library@1.0", {"version": "1.0.0", "docs": "exact"}, ["one"]),
        ("library@1.3.7", {"version": "1.3.7", "docs": "nearest", "docs_version": "1.2.0"}, ["two"]),
        ("library@1.9.0", {"version": "1.9.0", "docs": "nearest", "docs_version": "1.2.0"}, ["two"]),
        ("library@1", {"version": "1.4.0", "docs": "nearest", "docs_version": "1.2.0"}, ["two"]),
        ("library@0.9.0", {"version": "0.9.0", "docs": "missing"}, []),
        ("library@3", {"version": "3", "docs": "missing"}, []),
        ("library@local", {"version": "local", "docs": "missing"}, []),
        ("museum@1.0.0", {"version": "1.0.0", "docs": "missing"}, []),
        ("museum", {"docs": "missing"}, []),
        ("@mine/library@1.0.0", {"version": "1.0.0", "docs": "missing"}, []),
    ],
)
async def test_lookup_in_a_local_folder_finds_exact_nearest_or_missing_docs(
    adaptor_folder: Path, text: str, meta: dict[str, str], names: list[str]
) -> None:
    assert await LibraryHarness(adaptor_folder.parent, online=False).look_up_names(text) == (meta, names)


async def test_docs_in_the_folder_are_not_fetched(adaptor_folder: Path, registry: FakeRegistry) -> None:
    library = LibraryHarness(adaptor_folder.parent, registry.url)

    await library.look_up_names("library@1.2.0")
    await library.look_up_names("library")

    assert (library.progress, registry.requests) == ([], [])


async def test_folder_can_disappear_and_reappear(adaptor_folder: Path) -> None:
    library = LibraryHarness(adaptor_folder.parent, online=False)
    before = await library.look_up_names("library@1.0.0")
    shutil.move(adaptor_folder, adaptor_folder.parent / "away")
    without_folder = await library.look_up_names("library@1.0.0")
    shutil.move(adaptor_folder.parent / "away", adaptor_folder)

    assert (before, without_folder) == ((EXACT, ["one"]), (MISSING, []))
    assert await library.look_up_names("library@1.0.0") == (EXACT, ["one"])


async def test_bundled_samples_are_used_without_a_folder(tmp_path: Path) -> None:
    library = LibraryHarness(tmp_path, adaptors="", online=False)

    docs = await library.look_up("http")

    assert (docs.version, docs.state, docs.is_bundled) == ("7.2.10", "exact", True)
    assert {path.stem for path in SAMPLES.glob("*.json")} == {
        "http@6.0.0",
        "http@6.5.4",
        "http@7.2.10",
        "dhis2@8.0.7",
    }


async def test_registry_takes_precedence_over_a_sample(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("http", {"6.5.4": ONE, "7.0.0": TWO})
    library = LibraryHarness(tmp_path, registry.url, adaptors="")

    assert await library.look_up_names("http") == ({"version": "7.0.0", "docs": "exact"}, ["two"])
    assert await library.look_up_names("http@6.5.4") == ({"version": "6.5.4", "docs": "exact"}, ["one"])
    assert (await library.look_up("http@6")).entries == (await library.look_up("http@6.5.4")).entries
    assert library.progress == ["Looking up http@7.0.0", "Looking up http@6.5.4"]


async def test_sample_is_used_and_labelled_if_the_registry_lacks_the_version(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.publish("http", {"7.0.0": TWO})
    library = LibraryHarness(tmp_path, registry.url, adaptors="")

    exact, names = await library.look_up_names("http@6.5.4")
    nearest, _ = await library.look_up_names("http@6.5.9")

    assert exact == {"version": "6.5.4", "docs": "exact", "source": "bundled"}
    assert "post" in names
    assert nearest == {"version": "6.5.9", "docs": "nearest", "docs_version": "6.5.4", "source": "bundled"}


async def test_version_is_fetched_once_and_cached_on_disk(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE})
    library, second = LibraryHarness(tmp_path, registry.url), LibraryHarness(tmp_path, registry.url)

    assert await library.look_up_names("library@1.0.0") == (EXACT, ["one"])
    assert await library.look_up_names("library@1.0.0") == (EXACT, ["one"])
    assert await second.look_up_names("library@1.0.0") == (EXACT, ["one"])
    assert await second.look_up_names("library@1.0.0", download=False) == (EXACT, ["one"])

    assert (library.progress, second.progress) == (["Looking up library@1.0.0"], [])
    assert registry.requests == [PACKAGE, TARBALL]
    assert (tmp_path / "cache" / "npm" / "library@1.0.0.json").read_bytes() == describe("one")


@pytest.mark.parametrize(
    ("settings", "download"), [({"online": False}, True), ({"provider": "scripted"}, True), ({}, False)]
)
async def test_nothing_is_fetched_if_offline_or_scripted_or_if_the_caller_forbids_downloads(
    tmp_path: Path, registry: FakeRegistry, settings: dict[str, Any], download: bool
) -> None:
    registry.publish("library", {"1.0.0": ONE})
    library = LibraryHarness(tmp_path, registry.url, **settings)

    assert await library.look_up_names("library@1.0.0", download=download) == (MISSING, [])
    assert await library.look_up_names("library", download=download) == ({"docs": "missing"}, [])
    assert (library.progress, registry.requests) == ([], [])


async def test_many_chats_share_one_download(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE})
    registry.gate = asyncio.Event()
    library = LibraryHarness(tmp_path, registry.url)
    chats = [asyncio.create_task(library.look_up_names("library@1.0.0")) for _ in range(20)]
    await wait_until(lambda: len(library.progress) == 20 and bool(registry.requests))
    chats[0].cancel()
    registry.gate.set()

    assert await asyncio.gather(*chats[1:]) == [(EXACT, ["one"])] * 19
    assert registry.requests == [PACKAGE, TARBALL]


async def test_latest_version_of_the_registry_is_cached_for_an_hour(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE, "3.0.0": ONE, "2.0.0": ONE})
    library = LibraryHarness(tmp_path, registry.url)
    first = await library.look_up_names("library")
    registry.publish("library", {"2.0.0": ONE, "2.1.0": TWO})
    library.time = 3599.0
    same = await library.look_up_names("library@latest")
    library.time = 3600.0

    assert first == same == ({"version": "2.0.0", "docs": "exact"}, ["one"])
    assert await library.look_up_names("library@latest") == ({"version": "2.1.0", "docs": "exact"}, ["two"])
    assert await library.look_up_names("library@2.0") == ({"version": "2.0.0", "docs": "exact"}, ["one"])
    assert registry.requests.count(PACKAGE) == 2
    assert sorted(path.name for path in (tmp_path / "cache" / "npm").iterdir()) == [
        "library@2.0.0.json",
        "library@2.1.0.json",
    ]


async def test_latest_version_stays_known_while_the_registry_is_unavailable(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.publish("library", {"1.0.0": ONE})
    library = LibraryHarness(tmp_path, registry.url)
    await library.look_up_names("library")
    registry.responses.clear()
    library.time = 4000.0

    assert await library.look_up_names("library") == (EXACT, ["one"])
    assert await library.look_up_names("library") == (EXACT, ["one"])
    assert registry.requests.count(PACKAGE) == 2


async def test_version_published_after_the_first_lookup_is_found(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE})
    library = LibraryHarness(tmp_path, registry.url)
    await library.look_up_names("library")
    registry.publish("library", {"1.0.0": ONE, "1.1.0": TWO})

    assert await library.look_up_names("library@1.1.0") == ({"version": "1.1.0", "docs": "exact"}, ["two"])


async def test_highest_version_is_latest_if_the_registry_has_no_latest_tag(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.publish("library", {"1.0.0": ONE, "1.10.0": TWO, "1.9.0": ONE})
    registry.responses[PACKAGE].body = registry.responses[PACKAGE].body.replace(b"latest", b"newest")

    assert await LibraryHarness(tmp_path, registry.url).look_up_names("library") == (
        {"version": "1.10.0", "docs": "exact"},
        ["two"],
    )


async def test_a_broken_file_in_the_cache_is_fetched_again(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE})
    cached = tmp_path / "cache" / "npm" / "library@1.0.0.json"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(describe("one")[:-5])

    assert await LibraryHarness(tmp_path, registry.url).look_up_names("library@1.0.0") == (EXACT, ["one"])
    assert cached.read_bytes() == describe("one")


async def test_description_is_held_in_memory_if_the_cache_folder_is_not_writable(
    tmp_path: Path, registry: FakeRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    registry.publish("library", {"1.0.0": ONE})
    (tmp_path / "cache").write_text("in the way")
    library = LibraryHarness(tmp_path, registry.url)

    assert [await library.look_up_names("library@1.0.0") for _ in range(2)] == [(EXACT, ["one"])] * 2
    assert registry.tarballs == ["language-library-1.0.0.tgz"]
    assert caplog.messages[0].startswith("Cannot save library@1.0.0 in the cache folder")


async def test_number_of_descriptions_and_packages_in_memory_is_limited(
    tmp_path: Path, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palaver_jobchat.adaptors.library._MAX_FETCHED", 1)
    monkeypatch.setattr("palaver_jobchat.adaptors.npm_registry._MAX_PACKAGES", 1)
    registry.publish("library", {"1.0.0": ONE})
    registry.publish("museum", {"1.0.0": TWO})
    (tmp_path / "cache").write_text("in the way")
    library = LibraryHarness(tmp_path, registry.url)

    names = [(await library.look_up_names(f"{name}@1.0.0"))[1] for name in ("library", "museum", "library")]

    assert names == [["one"], ["two"], ["one"]]
    assert registry.requests.count(PACKAGE) == registry.requests.count(TARBALL) == 2


async def test_nearest_version_is_taken_from_the_cache(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.publish("library", {"1.0.0": ONE})
    library = LibraryHarness(tmp_path, registry.url)
    await library.look_up_names("library@1.0.0")

    assert await library.look_up_names("library@1.0.7", download=False) == (
        {"version": "1.0.7", "docs": "nearest", "docs_version": "1.0.0"},
        ["one"],
    )


async def test_nearest_version_is_fetched_if_the_version_does_not_exist(
    adaptor_folder: Path, registry: FakeRegistry
) -> None:
    registry.publish("library", {"1.0.0": ONE, "1.7.0": package("seven"), "1.8.0": TWO})
    library = LibraryHarness(adaptor_folder.parent, registry.url)

    assert await library.look_up_names("library@1.7.5") == (
        {"version": "1.7.5", "docs": "nearest", "docs_version": "1.7.0"},
        ["seven"],
    )
    assert library.progress == ["Looking up library@1.7.5", "Looking up library@1.7.0"]


async def test_only_one_nearest_version_is_fetched_before_using_the_folder(
    adaptor_folder: Path, registry: FakeRegistry
) -> None:
    registry.publish("library", {"1.5.0": b"broken", "1.6.0": b"broken", "1.7.0": b"broken"})
    library = LibraryHarness(adaptor_folder.parent, registry.url)

    assert await library.look_up_names("library@1.7.5") == (
        {"version": "1.7.5", "docs": "nearest", "docs_version": "1.2.0"},
        ["two"],
    )
    assert registry.tarballs == ["language-library-1.7.0.tgz"]


async def test_failed_fetch_of_a_version_does_not_fetch_another_version(
    adaptor_folder: Path, registry: FakeRegistry
) -> None:
    registry.publish("library", {"1.5.0": ONE, "1.6.0": b"broken"})
    library = LibraryHarness(adaptor_folder.parent, registry.url)

    assert await library.look_up_names("library@1.6.0") == (
        {"version": "1.6.0", "docs": "nearest", "docs_version": "1.2.0"},
        ["two"],
    )
    assert registry.tarballs == ["language-library-1.6.0.tgz"]


@pytest.mark.parametrize("path", ["/docs/library@1.0.0.json", "/docs/library/1.0.0/ast.json"])
async def test_folder_setting_can_be_a_url(tmp_path: Path, registry: FakeRegistry, path: str) -> None:
    registry.responses[path] = RegistryResponse(describe("one"))
    library = LibraryHarness(tmp_path, adaptors=f"{registry.url}/docs/", online=False)

    # The operator configured this URL: `download=False` forbids only downloads from a registry.
    assert await library.look_up_names("library@1.0.0", download=False) == (EXACT, ["one"])
    count = len(registry.requests)
    assert await library.look_up_names("library@1") == (EXACT, ["one"])
    assert await LibraryHarness(tmp_path, adaptors=f"{registry.url}/docs/").look_up_names("library@1.0.0") == (
        EXACT,
        ["one"],
    )
    assert (library.progress, len(registry.requests)) == (["Looking up library@1.0.0"], count)


async def test_descriptions_of_different_urls_are_cached_separately(tmp_path: Path, registry: FakeRegistry) -> None:
    registry.responses["/a/library@1.0.0.json"] = RegistryResponse(describe("one"))
    registry.responses["/b/library@1.0.0.json"] = RegistryResponse(describe("two"))
    registry.responses["/c/library@1.0.0.json"] = RegistryResponse(b"no description")

    results = [
        await LibraryHarness(tmp_path, adaptors=f"{registry.url}/{at}").look_up_names("library@1.0.0") for at in "abc"
    ]

    assert results == [(EXACT, ["one"]), (EXACT, ["two"]), (MISSING, [])]


async def test_description_missing_at_the_url_is_fetched_from_the_registry(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    registry.publish("library", {"1.0.0": ONE})
    library = LibraryHarness(tmp_path, registry.url, adaptors=f"{registry.url}/docs")

    assert await library.look_up_names("library@1.0.0") == (EXACT, ["one"])


async def test_missing_registry_setting_is_logged_once_and_nothing_is_fetched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    library = LibraryHarness(tmp_path)

    with caplog.at_level(logging.INFO):
        results = await asyncio.gather(
            *(library.look_up_names(f"{name}@1.0.0") for name in ("library", "museum", "library"))
        )
        await library.look_up_names("library")

    assert results == [(MISSING, [])] * 3
    assert library.progress == []
    assert caplog.messages == [
        "No npm registry is configured, so adaptor docs cannot be downloaded. Set PALAVER_JOBCHAT_REGISTRY."
    ]


async def test_registry_that_is_not_a_url_is_ignored(tmp_path: Path) -> None:
    assert await LibraryHarness(tmp_path, "npm.example").look_up_names("library@1.0.0") == (MISSING, [])


async def test_adaptor_name_cannot_escape_the_folder(adaptor_folder: Path) -> None:
    (adaptor_folder.parent / "1.0.0").mkdir()
    (adaptor_folder.parent / "1.0.0" / "ast.json").write_bytes(describe("secret"))
    library = LibraryHarness(adaptor_folder.parent, online=False)

    docs = await library.library.look_up(
        Adaptor("@openfn/language-..", "1.0.0"), download=True, on_progress=library.progress.append
    )

    assert docs.state == "missing"
