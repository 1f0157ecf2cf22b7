# Two commands matter: `make run` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := requirements/uv.txt pyproject.toml scripts/setup

.PHONY: setup run ui tour test test-all test-ci test-local coverage check docs bench wheel sidecar clean

setup: $(VENV)/.ready

$(VENV)/.run: requirements/run.txt $(LOCKS)
	@PYTHON="$(PYTHON)" scripts/setup run

$(VENV)/.ready: requirements/dev.txt src/prowess_dspy/requirements.txt $(LOCKS)
	@PYTHON="$(PYTHON)" scripts/setup

# The web application, built again when a part of it has changed.
UI := src/prowess/interfaces/rest/web/app/index.html
UI_PARTS := $(shell find ui -name node_modules -prune -o -type f ! -name schema.ts -print)

$(UI): $(UI_PARTS) scripts/ui | $(VENV)/.run
	@scripts/ui

ui: $(UI)

run: $(VENV)/.run
	@$(MAKE) --no-print-directory ui || echo "Going on without the web application." >&2
	@$(BIN)/python scripts/run.py

tour: $(VENV)/.run
	@scripts/tour

test: setup ui
	@scripts/browser
	@scripts/test

test-all: setup ui
	@scripts/browser
	@scripts/test --long

test-ci: setup ui
	@scripts/browser
	@scripts/test --all

test-local: setup
	@scripts/test --local

coverage: setup ui
	@scripts/browser
	@scripts/test --coverage

check: setup
	@scripts/check

docs:
	@PYTHON="$(PYTHON)" scripts/docs

bench: setup
	@scripts/bench

wheel: setup ui
	@$(BIN)/python scripts/component.py
	@$(BIN)/python -m build --wheel --no-isolation

sidecar: $(VENV)/.run
	@scripts/sidecar

clean:
	rm -rf $(VENV) ui/node_modules $(dir $(UI)) site .cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
