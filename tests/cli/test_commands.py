"""The command line, as a newcomer types it."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.conftest import Server
from threadkeep import clock
from threadkeep.cli.app import threadkeep

RUNNER = CliRunner()


def run(*arguments: str, **environment: str) -> Result:
    return RUNNER.invoke(threadkeep, arguments, env=environment)


def test_help_names_the_commands_and_the_variables() -> None:
    assert all(command in run("--help").output for command in ("serve", "token", "migrate"))
    text = run("serve", "--help").output
    for option in ("host", "port", "database", "token", "agent", "upstream", "run-lease"):
        assert f"--{option}" in text
        assert f"THREADKEEP_{option.replace('-', '_').upper()}" in text


def test_tokens_are_made_listed_and_revoked(database: str) -> None:
    made = run("token", "create", "--database", database, "--user", "ann", "--name", "laptop")
    listed = run("token", "list", THREADKEEP_DATABASE=database)

    assert made.output.startswith("tk_")
    assert made.output.strip() not in listed.output
    titles, line = listed.output.strip().split("\n")
    assert re.split("  +", titles) == ["ID", "STATE", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "USER", "NAME"]
    token_id, state, scope, _, expires, last_used, _, name = re.split("  +", line)
    assert (state, scope, expires, last_used, name) == ("live", "read,write", "never", "never", "laptop")
    assert run("token", "revoke", token_id, "--database", database).output == f"Revoked {token_id}\n"
    assert " revoked " in run("token", "list", "--database", database).output
    again = run("token", "revoke", token_id, "--database", database)
    assert (again.exit_code, again.output) == (1, f"Error: There is no live token '{token_id}'\n")


def test_a_token_may_be_for_reading_only_and_for_some_time(database: str) -> None:
    for expires in ("90m", "12h", "30d"):
        made = run("token", "create", "--database", database, "--scope", "read", "--expires", expires)
        assert made.exit_code == 0, made.output

    _, *lines = run("token", "list", "--database", database).output.strip().split("\n")
    rows = [re.split("  +", line) for line in lines]
    assert {row[2] for row in rows} == {"read"}
    lived = [clock.parse_timestamp(row[4]) - clock.parse_timestamp(row[3]) for row in rows]
    assert lived == [90 * 60 * 1_000_000, 12 * 3_600 * 1_000_000, 30 * 86_400 * 1_000_000]


def test_a_database_of_a_later_version_is_refused_by_every_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/t.db"
    run("migrate", "--database", url)
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '2099_01_01_later'")
        connection.commit()

    for command in (["migrate"], ["serve", "--port", "0"], ["work"], ["token", "list"]):
        ended = run(*command, "--database", url)
        assert ended.exit_code == 1
        assert ended.output.startswith("Error: The database has the schema '2099_01_01_later', which this version")
        assert ended.output.endswith("Upgrade Threadkeep, or give it another database.\n")


def test_migrate_says_what_it_did(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"

    assert run("migrate", "--database", url).output.startswith("Migrated from nothing to ")
    assert run("migrate", "--database", url).output.startswith("The schema is up to date: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--database", "mysql://x"], "give sqlite:///FILE or postgresql://"),
        (["serve", "--database", "sqlite:////nowhere/at/all.db"], "folder of the database file"),
        (["serve", "--database", "postgresql://x@127.0.0.1:1/y"], "cannot be reached"),
        (["serve", "--embedding-model", "e"], "'e' needs an endpoint: set --embedding-base-url"),
        (["work", "--llm-allowed-networks", "ten"], "'ten' is no network such as 10.0.0.0/8"),
        (["work", "--llm-at-once", "0"], "0 is not in the range"),
        (["serve", "--port", "70000"], "70000 is not in the range"),
        (["serve", "--port", "eighty"], "'eighty' is not a valid integer"),
        (["serve", "--agent", "a:b", "--upstream", "http://x"], "one gateway has one agent"),
        (["serve", "--colour", "red"], "No such option"),
        (["serve", "--workers", "0"], "0 is not in the range"),
        (["serve", "--workers", "2"], "--workers needs PostgreSQL"),
        (["serve", "--valkey", "http://x"], "'http://x' is no Valkey URL; give valkey://HOST:PORT"),
        (["serve", "--workers", "2", "--port", "0", "--database", "postgresql://x@127.0.0.1:1/y"], "cannot be reached"),
        (["serve", "--log-format", "xml"], "'xml' is not one of 'json', 'text'"),
        (["serve", "--rate-limit", "-1"], "-1 is not in the range"),
        (["token", "create", "--expires", "0d"], "'0d' is no duration such as 90m, 12h or 30d"),
        (["token", "create", "--expires", "30"], "'30' is no duration such as 90m, 12h or 30d"),
        (["token", "create", "--expires", "36501d"], "of 100 years at most"),
        (["token", "create", "--scope", "all"], "'all' is not one of 'read', 'write'"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_what_is_typed_wrong_is_told_in_words(arguments: list[str], words: str, tmp_path: Path) -> None:
    ended = run(*arguments, THREADKEEP_DATABASE=f"sqlite:///{tmp_path}/t.db")

    assert ended.exit_code != 0
    assert words in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize(
    ("agent", "words"),
    [("nothing", "MODULE:ATTRIBUTE"), ("no_such_module:x", "no_such_module"), ("threadkeep.demo:nobody", "nobody")],
)
def test_an_agent_that_is_not_there_is_named(agent: str, words: str, tmp_path: Path) -> None:
    ended = run("serve", "--agent", agent, "--port", "0", "--database", f"sqlite:///{tmp_path}/t.db")

    assert ended.exit_code == 1
    assert words in ended.output


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    server = Server(f"sqlite:///{tmp_path}/a.db")
    try:
        ended = run("serve", "--port", str(server.port), "--database", f"sqlite:///{tmp_path}/b.db")
    finally:
        server.kill()

    assert ended.output == f"Error: Cannot listen on 127.0.0.1:{server.port}: Address already in use\n"


def test_the_first_start_makes_a_token_and_shows_it_once(tmp_path: Path) -> None:
    def start() -> tuple[str, int]:
        command = [sys.executable, "-m", "threadkeep", "serve", "--port", "0"]
        command += ["--database", f"sqlite:///{tmp_path}/t.db"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        url = lines[0].split()[-1]
        if not (tmp_path / "seen").exists():
            lines.append(process.stdout.readline())
            secret = lines[-1].split()[1]
            answer = httpx.get(f"{url}/api/v2/memory/", headers={"Authorization": f"Bearer {secret}"})
            assert answer.status_code == 200
        process.terminate()
        rest = process.stdout.read()
        process.stdout.close()
        return "".join(lines) + rest, process.wait()

    first, first_code = start()
    (tmp_path / "seen").touch()
    second, second_code = start()

    assert "tk_" in first
    assert "it is shown this once" in first
    assert "tk_" not in second
    assert (first_code, second_code) == (0, 0)
