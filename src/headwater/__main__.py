"""``python -m headwater`` is the command line."""

from headwater.cli import main

main()
