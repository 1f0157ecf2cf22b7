"""`python -m prowess` is the command line."""

from prowess.interfaces.cli import run

run()
