"""``python -m tombola`` is the command ``tombola``."""

from tombola.cli.app import main

main()
