"""The marks around memories that an agent is reminded of: what stands between them is never extracted again."""

OPEN = "<recalled-memories>"
CLOSE = "</recalled-memories>"
