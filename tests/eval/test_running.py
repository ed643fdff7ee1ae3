"""The labelled set through the whole of extraction, with a model of few rules over real HTTP."""

import subprocess
import sys
from pathlib import Path

from eval.labels import Conversation, Label
from eval.running import run
from threadkeep.errors import ModelFailed
from threadkeep.settings import Settings
from threadkeep.testing.models import OneModel, ScriptedModel

TALK = Conversation("talk", (("ann: I like tea",), ("ann: I am a nurse",)), (Label("tea", "ann", (("tea",),)),), ())


def test_the_figures_of_the_rules_are_what_they_were() -> None:
    """A change of any of them is a change of extraction, or of the set."""
    ran = subprocess.run(
        [sys.executable, "-m", "eval"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={"PATH": ""},
    )
    print(ran.stdout)
    assert ran.stdout.splitlines()[2:] == [
        "conversations  52 (0 failed)",
        "precision      0.880   44 of 50 memories are worth keeping",
        "recall         0.962   50 of 52 facts were found",
        "duplicates     0.020   1 of 50 memories say nothing new",
        "attribution    1.000   44 of 44 are the right person's",
        "junk           5 memories hold what nobody would keep",
        "requests       58, 1.12 a conversation",
    ]


async def test_what_fails_is_tried_again_and_counted_where_it_fails_for_good() -> None:
    tea = {"memories": [{"text": "Likes tea", "sources": [1], "categories": []}]}
    model = ScriptedModel([ModelFailed("once"), tea, *[ModelFailed("ever again")] * 2])

    figures = await run([TALK], Settings(llm_attempts=2), OneModel(model))

    assert (figures.failed, figures.found, figures.attributed, figures.requests) == (1, 1, 1, 4)
