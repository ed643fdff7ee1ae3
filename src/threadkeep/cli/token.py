"""`threadkeep token create | list | revoke`"""

import click

from threadkeep import clock
from threadkeep.cli.running import run, setting, with_container
from threadkeep.domain.token import Token
from threadkeep.settings import Settings


@click.group()
def token() -> None:
    """Tokens: who may call."""


@token.command()
@setting("database")
@click.option("--user", default="admin", show_default=True, help="The user that the token speaks for; made if new.")
@click.option("--name", default="token", show_default=True, help="What you know the token by.")
@click.option("--expires-in", type=click.IntRange(min=1), help="Days after which the token expires; never if absent.")
@click.option("--act-for", is_flag=True, help="Let the token name users of its own with X-Threadkeep-User.")
def create(database: str, user: str, name: str, expires_in: int | None, act_for: bool) -> None:
    """Make a token. Its secret is printed once and kept nowhere."""
    seconds = None if expires_in is None else expires_in * 86_400
    _, secret = run(
        with_container(
            Settings(database=database),
            lambda services: services.tokens.create(user=user, name=name, expires_in=seconds, may_act_for=act_for),
        )
    )
    click.echo(secret)


@token.command("list")
@setting("database")
def list_(database: str) -> None:
    """List the tokens, without their secrets."""
    tokens = run(with_container(Settings(database=database), lambda services: services.tokens.all()))
    for item in tokens:
        click.echo(
            f"{item.id}  {_state(item):8}  {clock.format_timestamp(item.created_at)}  {item.user_id}  {item.name}"
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
