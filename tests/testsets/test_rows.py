"""Rows: stable ids, and hashes of the content."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.ids import sortable_id
from palaver.testsets.rows import canonical_json, format_row_id, new_packed_id, pack_row_id, row_hash
from tests.testsets.strategies import JSON


@given(st.binary(min_size=16, max_size=16))
def test_an_id_packs_and_unpacks(packed: bytes) -> None:
    assert pack_row_id(format_row_id(packed)) == packed


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**80 - 1))
def test_a_new_id_is_the_same_packed_or_not(milliseconds: int, randomness: int) -> None:
    assert format_row_id(new_packed_id(milliseconds, randomness)) == f"row_{sortable_id(milliseconds, randomness)}"


def test_malformed_row_ids_are_rejected() -> None:
    good = "row_00000000050000000000000007"
    assert format_row_id(pack_row_id(good)) == good

    for bad in ("", "row_", good[:-1], good + "0", good + "\n", "ROW_" + good[4:], good[:-1] + "u", "row_8" + good[5:]):
        with pytest.raises(ValueError, match="Invalid row id"):
            pack_row_id(bad)
    with pytest.raises(ValueError, match="must have 16 bytes"):
        format_row_id(b"short")


def test_canonical_text_has_sorted_keys_and_no_spaces() -> None:
    data = {"b": {"z": [1, 1.0, -0.0, 1e22], "a": "é\n"}, "": None, "a": 10**30}

    assert canonical_json(data).decode() == (
        '{"":null,"a":1000000000000000000000000000000,"b":{"a":"é\\n","z":[1,1.0,-0.0,1e22]}}'
    )
    assert row_hash(data) == hashlib.blake2b(canonical_json(data), digest_size=16).digest()


def test_equal_content_has_one_hash_and_other_content_another() -> None:
    assert row_hash({"a": 1, "b": {"c": 2, "d": 3}}) == row_hash({"b": {"d": 3, "c": 2}, "a": 1})
    different = [{}, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": None}, {"a": [1]}]
    assert len({row_hash(data) for data in different}) == len(different)


def test_different_lone_surrogates_have_different_hashes() -> None:
    data = {"z": ["x\ud800\n", 1], "\udfff": "\ud801"}

    assert canonical_json(data) == b'{"\\udfff":"\\ud801","z":["x\\ud800\\n",1]}'
    assert row_hash({"a": "\ud800"}) != row_hash({"a": "\ud801"})


@given(JSON)
def test_canonical_json_is_stable_after_decoding(value: object) -> None:
    import msgspec

    assert canonical_json(msgspec.json.decode(canonical_json(value))) == canonical_json(value)
