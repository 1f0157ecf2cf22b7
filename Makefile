# Two commands matter: `make run` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := requirements/uv.txt pyproject.toml scripts/setup

.PHONY: setup run tour test test-all test-local coverage check docs bench wheel sidecar clean

setup: $(VENV)/.ready

$(VENV)/.run: requirements/run.txt $(LOCKS)
	@PYTHON="$(PYTHON)" scripts/setup run

$(VENV)/.ready: requirements/dev.txt src/prowess_dspy/requirements.txt $(LOCKS)
	@PYTHON="$(PYTHON)" scripts/setup

run: $(VENV)/.run
	@$(BIN)/python scripts/run.py

tour: $(VENV)/.run
	@scripts/tour

test: setup
	@scripts/test

test-all: setup
	@scripts/test --long

test-local: setup
	@scripts/test --local

coverage: setup
	@scripts/test --coverage

check: setup
	@scripts/check

docs:
	@PYTHON="$(PYTHON)" scripts/docs

bench: setup
	@scripts/bench

wheel: setup
	@$(BIN)/python scripts/component.py
	@$(BIN)/python -m build --wheel --no-isolation

sidecar: $(VENV)/.run
	@scripts/sidecar

clean:
	rm -rf $(VENV) site .cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
