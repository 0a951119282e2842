"""``python -m fedscan.cli.app``."""

from fedscan.cli.app import app

app()
