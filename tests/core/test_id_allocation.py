"""Ids of messages, items and calls: assigned by the grammar or given by the producer, always unique."""

from palaver.core.ids import IdAllocator


def test_one_counter_numbers_everything_that_we_name() -> None:
    names = IdAllocator("run_r")

    assert [names.new("msg"), names.new("rs"), names.message_for(""), names.new("dat")] == [
        "msg_r_1",
        "rs_r_2",
        "msg_r_3",
        "dat_r_4",
    ]


def test_items_that_name_no_message_share_the_one_being_spoken() -> None:
    names = IdAllocator("run_r")

    dialect = [names.message_for(""), names.message_for(""), names.message_for("m"), names.message_for("")]

    assert dialect == ["msg_r_1", "msg_r_1", "m", "m"]


def test_a_message_ends_and_the_next_one_is_new() -> None:
    names = IdAllocator("run_r")
    names.message_for("m")
    names.end_message()

    assert names.message_for("") == "msg_r_1"
    assert names.message_for("m") == "m"


def test_a_result_is_a_message_of_its_own_and_parts_before_from_after() -> None:
    names = IdAllocator("run_r")

    dialect = [
        names.message_for("m"),
        names.result_message(""),
        names.message_for(""),
        names.result_message("m"),
        names.message_for("m"),
        names.message_for("m"),
        names.result_message("t"),
        names.message_for("t"),
    ]

    assert dialect == ["m", "msg_r_1", "msg_r_2", "msg_r_3", "msg_r_4", "msg_r_4", "t", "msg_r_5"]


def test_a_message_that_was_renamed_answers_to_both_names() -> None:
    names = IdAllocator("run_r")
    names.message_for("m")
    names.result_message("")

    assert [names.message_for("m"), names.message_for("msg_r_2")] == ["msg_r_2", "msg_r_2"]


def test_a_message_that_we_named_may_be_named_by_its_producer() -> None:
    names = IdAllocator("run_r")

    assert [names.message_for(""), names.message_for("msg_r_1")] == ["msg_r_1", "msg_r_1"]


def test_names_that_a_producer_guessed_are_passed_over() -> None:
    names = IdAllocator("run_r")
    names.message_for("msg_r_1")
    names.claim_item("rs_r_2")

    assert [names.new("msg"), names.new("rs")] == ["msg_r_2", "rs_r_3"]


def test_an_item_is_named_once() -> None:
    names = IdAllocator("run_r")

    assert [names.is_item("x"), names.claim_item("x"), names.is_item("x"), names.claim_item("x")] == [
        False,
        "x",
        True,
        None,
    ]


def test_an_item_that_never_was_may_be_named_again() -> None:
    names = IdAllocator("run_r")
    names.claim_item("x")
    names.release_item("x")

    assert names.claim_item("x") == "x"


def test_a_call_answers_to_its_producers_name_its_items_and_its_own() -> None:
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


def test_every_name_is_cut_to_length() -> None:
    names, long = IdAllocator("run_r"), "x" * 64

    created = [
        names.message_for(long * 2),
        names.result_message(long * 3),
        names.claim_item(long * 4),
        names.claim_call_item(long, producer_name=""),
    ]

    assert [len(name or "") for name in created] == [53, 53, 53, 53]
    assert names.call_item_id(long) == created[3]
