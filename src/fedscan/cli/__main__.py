"""``python -m fedscan.cli``."""

from fedscan.cli.app import main

main()
