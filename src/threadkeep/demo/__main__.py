"""`make demo`: Threadkeep on an embedded file with the demo agent behind it, and lines to paste."""

import os
import sys
from functools import partial
from pathlib import Path

import click

from threadkeep.cli.running import run, with_container
from threadkeep.cli.serve import listen_and_serve
from threadkeep.domain.token import new_secret
from threadkeep.settings import Settings

FOLDER = Path(".demo")
_QUESTION = "What is the weather in Oslo?"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    settings = Settings(
        port=int(os.environ.get("THREADKEEP_PORT", Settings().port)),
        database=f"sqlite:///{FOLDER}/threadkeep.db",
        token=_token(FOLDER / "token"),
        agent="threadkeep.demo:agent",
    )
    announce = partial(_announce, settings.token)
    run(with_container(settings, lambda container: listen_and_serve(container, settings, announce)))


def _announce(token: str | None, url: str, _: str | None) -> None:
    model = os.environ.get("OPENAI_MODEL") or "a model" if os.environ.get("OPENAI_API_KEY") else "its script"
    body = (
        '{"threadId":"demo","runId":"\'"$(date +%s)"\'","messages":'
        f'[{{"id":"\'"$(date +%s)"\'","role":"user","content":"{_QUESTION}"}}],'
        '"tools":[],"context":[],"state":{},"forwardedProps":{}}'
    )
    click.echo(f"""Threadkeep listens on {url}, with a demo agent that talks by {model}.
  Token          {token}
  Documentation  {url}/api/v2/docs/

Paste this to talk to the agent, and watch it stream:

  curl -sN {url}/agui/ -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \\
    -d '{body}'

and this to see the history, now or after a restart:

  curl -s {url}/agui/threads/demo/messages/ -H 'Authorization: Bearer {token}' | python3 -m json.tool

It is kept in {FOLDER}/. Stop with Ctrl-C, or with kill -9: it will still be there.
""")


def _token(path: Path) -> str:
    """The demo's token, the same at every start."""
    if not path.exists():
        path.write_text(new_secret())
        path.chmod(0o600)
    return path.read_text().strip()


if __name__ == "__main__":
    try:
        main()
    except click.ClickException as error:
        sys.exit(f"threadkeep: {error.format_message()}")
