"""Ids of messages, items and calls: assigned by the grammar or given by the producer, always unique."""

from palaver.core.ids import IdAllocator


def test_one_counter_numbers_all_generated_ids() -> None:
    names = IdAllocator("run_r")

    assert [names.new("msg"), names.new("rs"), names.message_for(""), names.new("dat")] == [
        "msg_r_1",
        "rs_r_2",
        "msg_r_3",
        "dat_r_4",
    ]


def test_items_without_a_message_id_share_the_current_message() -> None:
    names = IdAllocator("run_r")

    ids = [names.message_for(""), names.message_for(""), names.message_for("m"), names.message_for("")]

    assert ids == ["msg_r_1", "msg_r_1", "m", "m"]


def test_a_new_message_id_is_allocated_after_a_message_ends() -> None:
    names = IdAllocator("run_r")
    names.message_for("m")
    names.end_message()

    assert names.message_for("") == "msg_r_1"
    assert names.message_for("m") == "m"


def test_a_tool_result_is_a_separate_message_between_those_before_and_after_it() -> None:
    names = IdAllocator("run_r")

    ids = [
        names.message_for("m"),
        names.result_message(""),
        names.message_for(""),
        names.result_message("m"),
        names.message_for("m"),
        names.message_for("m"),
        names.result_message("t"),
        names.message_for("t"),
    ]

    assert ids == ["m", "msg_r_1", "msg_r_2", "msg_r_3", "msg_r_4", "msg_r_4", "t", "msg_r_5"]


def test_a_renamed_message_is_found_by_both_ids() -> None:
    names = IdAllocator("run_r")
    names.message_for("m")
    names.result_message("")

    assert [names.message_for("m"), names.message_for("msg_r_2")] == ["msg_r_2", "msg_r_2"]


def test_a_producer_can_refer_to_a_message_by_its_generated_id() -> None:
    names = IdAllocator("run_r")

    assert [names.message_for(""), names.message_for("msg_r_1")] == ["msg_r_1", "msg_r_1"]


def test_generated_ids_skip_those_the_producer_has_used() -> None:
    names = IdAllocator("run_r")
    names.message_for("msg_r_1")
    names.claim_item("rs_r_2")

    assert [names.new("msg"), names.new("rs")] == ["msg_r_2", "rs_r_3"]


def test_an_item_id_can_be_claimed_only_once() -> None:
    names = IdAllocator("run_r")

    assert [names.is_item("x"), names.claim_item("x"), names.is_item("x"), names.claim_item("x")] == [
        False,
        "x",
        True,
        None,
    ]


def test_a_released_item_id_can_be_claimed_again() -> None:
    names = IdAllocator("run_r")
    names.claim_item("x")
    names.release_item("x")

    assert names.claim_item("x") == "x"


def test_a_call_is_found_by_producer_name_item_id_and_call_id() -> None:
    names = IdAllocator("run_r")
    item = names.claim_call_item("c", producer_name="call no. 1")

    assert item == "fc_c"
    assert [names.call_item_id("call no. 1"), names.call_item_id("fc_c"), names.call_item_id("c")] == [
        "fc_c",
        "fc_c",
        "fc_c",
    ]
    assert names.claim_call_item("c", producer_name="call no. 2") is None
    assert names.call_item_id("call no. 2") == "fc_call no. 2"


def test_every_long_id_is_truncated() -> None:
    names, long = IdAllocator("run_r"), "x" * 64

    created = [
        names.message_for(long * 2),
        names.result_message(long * 3),
        names.claim_item(long * 4),
        names.claim_call_item(long, producer_name=""),
    ]

    assert [len(name or "") for name in created] == [53, 53, 53, 53]
    assert names.call_item_id(long) == created[3]
