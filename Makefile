# Two commands matter: `make run` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup run test test-local check soak bench wheel clean

setup: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml scripts/setup tests/interfaces/mcp/node/package-lock.json
	@PYTHON="$(PYTHON)" scripts/setup

run: setup
	@scripts/tour

test: setup
	@scripts/test

test-local: setup
	@scripts/test --local

check: setup
	@scripts/check

soak: setup
	@scripts/test --soak

bench: setup
	@scripts/bench

wheel: setup
	@$(BIN)/python scripts/component.py
	@$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
