"""`python -m prowess` is the command line."""

from prowess.interfaces.cli.main import run

run()
