"""Starts a server on each engine, then runs the scenarios in the clients' environment: `python -m interop`.

Runs in the project's environment, which has the server. The scenarios run in `interop/.venv`, which has the published
clients, and ours as a client only; those of memories run in an environment for each version of mem0's client; those of
the clients in JavaScript run in Node, driven from here. Further arguments go to pytest.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from threadkeep.testing import postgres

FOLDER = Path(__file__).parent
PYTHON = FOLDER / ".venv" / "bin" / "python"
TOKEN = "tk_interop"
MEM0 = FOLDER / "mem0"
MEM0_VERSIONS = ("0.1.118", "1.0.11", "2.2.1")
JAVASCRIPT = FOLDER / "js"
_STOP_SECONDS = 30
_NO_TESTS = 5
"""What pytest answers where the arguments choose none."""


def main() -> int:
    """Run the scenarios; the answer is pytest's, the first that is not well."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="threadkeep-interop-")))
        server = stack.enter_context(postgres.running())
        databases = {
            "SQLITE": f"sqlite:///{folder / 'interop.db'}",
            "POSTGRESQL": stack.enter_context(postgres.new_database(server)),
        }
        # Whatever the caller's shell is set to must not reach the clients.
        foreign = ("DATAROBOT_", "THREADKEEP_", "PYTHON")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environment |= {"INTEROP_TOKEN": TOKEN, "HOME": str(folder)}
        for engine, database in databases.items():
            environment[f"INTEROP_{engine}"] = stack.enter_context(serving(database))
        environment["INTEROP_JS_SQLITE"] = f"sqlite:///{folder / 'javascript.db'}"
        environment["INTEROP_JS_POSTGRESQL"] = stack.enter_context(postgres.new_database(server))
        # Their client tells its makers what it does, unless it is asked not to.
        environment["MEM0_TELEMETRY"] = "False"
        runs = [(PYTHON, FOLDER, ["--ignore", str(MEM0), "--ignore", str(JAVASCRIPT)])]
        for version in MEM0_VERSIONS:
            python = FOLDER / f".venv-mem0-{version}" / "bin" / "python"
            runs.append((python, MEM0, ["--confcutdir", str(FOLDER)]))
        runs.append((Path(sys.executable), JAVASCRIPT, ["--confcutdir", str(JAVASCRIPT)]))
        answers = []
        for python, tests, options in runs:
            print(f"{tests.relative_to(FOLDER.parent)} in {python.parent.parent.name}", flush=True)
            command = [str(python), "-m", "pytest", "-c", str(tests / "pytest.ini"), str(tests), *options]
            done = subprocess.run([*command, *sys.argv[1:]], env=environment, cwd=FOLDER.parent, check=False)
            answers.append(done.returncode)
        return next((answer for answer in answers if answer not in (0, _NO_TESTS)), 0)


@contextmanager
def serving(database: str, *options: str) -> Iterator[str]:
    """The URL of `threadkeep serve` on this database, in a process of its own."""
    command = [
        *(sys.executable, "-m", "threadkeep", "serve", "--database", database),
        *("--port", "0", "--token", TOKEN, "--no-access-log"),
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            # It says where it listens, or ends and closes its output.
            first = server.stdout.readline()
            if " listens on " not in first:
                raise SystemExit(f"threadkeep serve did not start on {database.partition(':')[0]}")
            yield first.split()[-1]
        finally:
            server.terminate()
            server.wait(_STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
