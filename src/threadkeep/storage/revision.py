"""Which schema an open database has, asked through the connections that everything else uses."""

from sqlalchemy import column, select, table

from threadkeep.storage.statement import Statement, Steps

_STORED = Statement(select(column("version_num")).select_from(table("alembic_version")))


def stored() -> Steps[str | None]:
    """The revision that the database is at; None where nothing says so."""
    rows = yield _STORED, {}
    return str(rows[0][0]) if rows else None
