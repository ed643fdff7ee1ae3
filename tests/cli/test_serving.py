"""How the HTTP server runs."""

from threadkeep.cli.serving import uvicorn_config

BALANCERS = 60
"""Seconds for which load balancers keep an idle connection to a server: nginx, and those of the large clouds."""


def test_an_idle_connection_is_closed_by_whoever_sends_requests_on_it() -> None:
    assert uvicorn_config(None).timeout_keep_alive > BALANCERS
