"""The only SQL: tables, migrations, queries, and the group-commit writer. Knows no rule and no HTTP."""
