"""``python -m streamgp`` is the command ``streamgp``."""

from streamgp.cli import main

main()
