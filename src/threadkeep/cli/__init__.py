"""The command line, one file per command group."""

import sys

from threadkeep.errors import MissingExtra


def main() -> None:
    """The `threadkeep` command."""
    try:
        from threadkeep.cli.app import threadkeep
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("threadkeep"):
            raise
        sys.exit(f"threadkeep: {MissingExtra('server', 'The threadkeep command')}")
    threadkeep()
