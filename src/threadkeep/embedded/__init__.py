"""The Memory Service inside this process, without a server: its client, and a log for the runs of agents."""

from threadkeep.embedded.client import client
from threadkeep.embedded.run_log import RunLog, run_log

__all__ = ["RunLog", "client", "run_log"]
