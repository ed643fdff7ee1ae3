"""Which stored messages lead to one of them."""

from uuid import UUID, uuid4

from tests.chat_history.stored import spoken
from threadkeep.chat_history import Message
from threadkeep.chat_history.branches import NOTHING, Branches, leading_to


def chat(*lines: str) -> list[Message]:
    """Messages from lines such as `u2b>m1 r2`: its name, the one that it follows, its run. Users' begin with a u."""
    messages: dict[str, Message] = {}
    for line in lines:
        place, _, run = line.partition(" ")
        name, _, before = place.partition(">")
        follows = None
        if before:
            follows = messages[before].message_uuid if before in messages else {"nothing": NOTHING}.get(before, uuid4())
        fields = {"agui_id": name, "follows": follows, "run_id": run or None}
        messages[name] = (
            Message(content=name, role="user", **fields) if name.startswith("u") else spoken(name, **fields)
        )
    return [*messages.values()]


def names(messages: list[Message]) -> list[str | None]:
    return [message.agui_id for message in messages]


def led_to(messages: list[Message], name: str | None = None) -> list[str | None]:
    end = next((message.message_uuid for message in messages if message.agui_id == name), None)
    return names(leading_to(messages, end))


def test_without_branches_everything_leads_to_the_newest_message() -> None:
    assert led_to(chat("u1", "m1", "u2", "m2")) == ["u1", "m1", "u2", "m2"]
    assert led_to(chat("u1", "m1", "u2", "m2"), "u2") == ["u1", "m1", "u2"]
    assert leading_to([]) == []


def test_an_edited_message_leaves_out_what_it_replaces() -> None:
    messages = chat("u1", "m1", "u2", "m2", "u2b>m1", "m3")
    assert led_to(messages) == ["u1", "m1", "u2b", "m3"]
    assert led_to(messages, "m2") == ["u1", "m1", "u2", "m2"]


def test_a_conversation_that_began_anew_has_nothing_before_it() -> None:
    assert led_to(chat("u1", "m1", "u1b>nothing", "m2")) == ["u1b", "m2"]
    assert leading_to(chat("u1", "m1"), NOTHING) == []


def test_another_answer_takes_the_place_of_the_first() -> None:
    assert led_to(chat("u1", "m1", "m1b>u1", "u2")) == ["u1", "m1b", "u2"]


def test_branches_may_leave_branches() -> None:
    messages = chat("u1", "m1", "u2", "m2", "u2b>m1", "m3", "u3>m2", "m4")
    assert led_to(messages) == ["u1", "m1", "u2", "m2", "u3", "m4"]


def test_a_message_that_follows_nobody_known_or_a_later_one_follows_the_one_before_it() -> None:
    assert led_to(chat("u1", "m1", "u2>deleted")) == ["u1", "m1", "u2"]
    messages = chat("u1", "m1", "u2")
    messages[1].follows = messages[2].message_uuid
    messages[2].follows = messages[2].message_uuid
    assert led_to(messages) == ["u1", "m1", "u2"]


def test_runs_on_two_branches_at_once_keep_out_of_each_others_way() -> None:
    messages = chat("u1 r1", "m1 r1", "u2 r2", "u2b>m1 r3", "m2 r2", "m3 r3", "m4 r2")
    assert led_to(messages, "m3") == ["u1", "m1", "u2b", "m3"]
    assert led_to(messages, "m4") == ["u1", "m1", "u2", "m2", "m4"]


def test_runs_on_one_branch_at_once_see_each_other() -> None:
    assert led_to(chat("u1 r1", "u2 r2", "m1 r1", "m2 r2")) == ["u1", "u2", "m1", "m2"]


def test_a_turn_ends_with_the_newest_answer() -> None:
    branches = Branches(chat("u1", "m1", "m2", "m1b>u1", "m3", "u2", "m4"))
    assert branches.end_of_turn(0) == 4
    assert branches.end_of_turn(1) == 2
    assert (branches.said_next(0), branches.said_next(1), branches.said_next(6)) == ([5], [], [])


def test_the_first_question_and_its_edits_follow_nothing() -> None:
    branches = Branches(chat("m0", "u1", "m1", "u1b>m0", "m2"))
    assert branches.said_next(-1) == [1, 3]
    assert [branches.question_of(place) for place in range(5)] == [-1, 1, 1, 3, 3]
    assert Branches([]).said_next(-1) == []


def test_the_nil_uuid_is_what_a_new_beginning_follows() -> None:
    assert UUID("00000000-0000-0000-0000-000000000000") == NOTHING


def test_a_run_ends_with_the_last_of_its_messages() -> None:
    branches = Branches(chat("u1 r1", "m1 r1", "u2 r2", "m2 r2", "m3 r1", "u3"))
    assert [branches.end_of_run(run) for run in ("r1", "r2", "r3", None)] == [4, 3, None, None]
