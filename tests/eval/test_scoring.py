"""From memories and labels to figures."""

from eval.labels import Conversation, Label, load
from eval.scoring import Figures, Kept, has

TALK = Conversation(
    "talk",
    (("ann: I like tea and have two cats", "ben: I am a nurse"),),
    (
        Label("Likes tea", "ann", (("tea",),)),
        Label("Has two cats", "ann", (("cat",), ("two", "2"))),
        Label("Is a nurse", "ben", (("nurse",),)),
    ),
    (("sushi", "chef"),),
)


def test_what_is_right_missed_doubled_misattributed_and_junk_is_counted() -> None:
    figures = Figures()
    memories = [
        Kept("Likes TEA", "ann"),
        Kept("Is fond of tea", "ann"),
        Kept("Is a nurse", "ann"),
        Kept("Has cats", "ann"),
        Kept("Is a sushi chef", "ben"),
    ]

    figures.count(TALK, memories)

    assert (figures.labels, figures.memories, figures.found, figures.right) == (3, 5, 2, 3)
    assert (figures.doubles, figures.attributed, figures.junk) == (1, 2, 1)
    assert (figures.precision, figures.duplicates) == (3 / 5, 1 / 5)
    assert (round(figures.recall, 3), round(figures.attribution, 3)) == (0.667, 0.667)
    assert figures.remarks == [
        "talk: should not keep 'Has cats'",
        "talk: should not keep 'Is a sushi chef'",
        "talk: misses 'Has two cats'",
    ]


def test_a_memory_of_two_facts_finds_both() -> None:
    figures = Figures()
    figures.count(TALK, [Kept("Likes tea and has 2 cats", "ann"), Kept("Has two cats", "ann")])
    assert (figures.found, figures.right, figures.doubles) == (2, 2, 1)


def test_nothing_where_nothing_is_to_be_kept_is_perfect() -> None:
    figures = Figures()
    figures.count(Conversation("none", (("- Hello",),), (), ()), [])
    assert (figures.precision, figures.recall, figures.duplicates, figures.attribution) == (1, 1, 0, 1)


def test_words_are_found_in_any_case_one_of_each_group() -> None:
    assert has("Hikes a LOT", (("hik",), ("lot", "much")))
    assert not has("Hikes", (("hik",), ("lot", "much")))


def test_the_set_is_large_varied_and_whole() -> None:
    conversations = load()
    assert len(conversations) >= 40
    assert len({conversation.id for conversation in conversations}) == len(conversations)
    assert sum(not conversation.keep for conversation in conversations) >= 10, "junk alone is a case too"
    assert sum(len(conversation.sessions) > 1 for conversation in conversations) >= 4
    for conversation in conversations:
        said = [line for session in conversation.sessions for line in session]
        people = {line.partition(": ")[0] for line in said if not line.startswith("- ")}
        assert all(line.startswith("- ") or ": " in line for line in said), conversation.id
        assert {label.by for label in conversation.keep} <= people, conversation.id
        for label in conversation.keep:
            assert label.words, conversation.id
            assert has(f"{label.fact} {' '.join(said)}", label.words), (conversation.id, label.fact)
