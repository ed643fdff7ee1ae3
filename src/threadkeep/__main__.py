"""`python -m threadkeep`"""

from threadkeep.cli import main

main()
