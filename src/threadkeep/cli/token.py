"""`threadkeep token create | list | revoke`"""

import re
from typing import Any

import click

from threadkeep import clock
from threadkeep.cli.running import run, setting, with_container
from threadkeep.domain.token import SCOPES, Token
from threadkeep.settings import Settings

_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}
_LONGEST = 100 * 365 * 86_400
_COLUMNS = "{:36}  {:7}  {:10}  {:27}  {:27}  {:27}  {:24}  {}"
_TITLES = ("ID", "STATE", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "USER", "NAME")


class _Duration(click.ParamType[int]):
    """`90m`, `12h` or `30d`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch("([1-9][0-9]{0,8})([mhd])", str(value))
        seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
        if not 0 < seconds <= _LONGEST:
            self.fail(f"{value!r} is no duration such as 90m, 12h or 30d, of 100 years at most", param, ctx)
        return seconds


@click.group()
def token() -> None:
    """Tokens: who may call."""


@token.command()
@setting("database")
@click.option("--user", default="admin", show_default=True, help="The user that the token speaks for; made if new.")
@click.option("--name", default="token", show_default=True, help="What you know the token by.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(sorted(SCOPES)),
    multiple=True,
    help="What the token is for: calls that read, or calls that write. Repeatable; both if absent.",
)
@click.option("--expires", type=_Duration(), help="When the token expires: 90m, 12h, 30d. Never if absent.")
@click.option("--act-for", is_flag=True, help="Let the token name users of its own with X-Threadkeep-User.")
def create(database: str, user: str, name: str, scopes: tuple[str, ...], expires: int | None, act_for: bool) -> None:
    """Make a token. Its secret is printed once and kept nowhere."""
    _, secret = run(
        with_container(
            Settings(database=database),
            lambda services: services.tokens.create(
                user=user, name=name, expires_in=expires, may_act_for=act_for, scopes=scopes or SCOPES
            ),
        )
    )
    click.echo(secret)


@token.command("list")
@setting("database")
def list_(database: str) -> None:
    """List the tokens, without their secrets."""
    tokens = run(with_container(Settings(database=database), lambda services: services.tokens.all()))
    click.echo(_COLUMNS.format(*_TITLES))
    for item in tokens:
        click.echo(
            _COLUMNS.format(
                item.id,
                _state(item),
                ",".join(sorted(item.scopes)),
                clock.format_timestamp(item.created_at),
                _moment(item.expires_at),
                _moment(item.last_used_at),
                item.user_id,
                item.name,
            )
        )


@token.command()
@setting("database")
@click.argument("token_id")
def revoke(database: str, token_id: str) -> None:
    """Revoke a token by its id. Running servers refuse it within two seconds."""
    run(with_container(Settings(database=database), lambda services: services.tokens.revoke(token_id)))
    click.echo(f"Revoked {token_id}")


def _state(item: Token) -> str:
    if item.revoked_at is not None:
        return "revoked"
    return "live" if item.is_live(clock.now()) else "expired"


def _moment(at: int | None) -> str:
    return "never" if at is None else clock.format_timestamp(at)
