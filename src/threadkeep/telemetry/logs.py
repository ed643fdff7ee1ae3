"""The log of a process: where its lines go, and from which level on. Libraries never call this; commands do."""

import logging
import sys
from typing import TextIO

from threadkeep.telemetry.lines import FORMATS, LineFormatter

LEVELS = ("debug", "info", "warning", "error")


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
