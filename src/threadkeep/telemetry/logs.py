"""The log of a process: where its lines go, and from which level on. Libraries never call this; commands do."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from threadkeep.telemetry.lines import FORMATS, LineFormatter

LEVELS = ("debug", "info", "warning", "error")


@contextmanager
def configured(*, level: str, form: str, stream: TextIO | None = None) -> Iterator[None]:
    """As `configure`, while the context is open."""
    root, ours = logging.getLogger(), logging.getLogger("threadkeep")
    before = (root.handlers, root.level, ours.level)
    configure(level=level, form=form, stream=stream)
    try:
        yield
    finally:
        root.handlers = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])


def configure(*, level: str, form: str, stream: TextIO | None = None) -> None:
    """Send what Threadkeep logs from `level` on, and warnings of everything else, to standard error.

    `level` is one of LEVELS, `form` is `json` or `text`.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(FORMATS[form], with_foreign_texts=level == "debug"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(logging.WARNING, _number(level)))
    logging.getLogger("threadkeep").setLevel(_number(level))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]
