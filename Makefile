# `make run` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CONSTRAINTS := deploy/constraints.txt

PORT ?= 8080
WORKERS ?= 3
STRATEGY ?= prefix_aware

.PHONY: run test lint bench clean

run: $(VENV)/.run
	@exec $(BIN)/warmgate demo --port $(PORT) --workers $(WORKERS) --strategy $(STRATEGY)

test: lint
	$(BIN)/pytest --cov --cov-report=term --cov-fail-under=100

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.index
	$(BIN)/python -m benchmarks.replay --capacity-search
	$(BIN)/python -m benchmarks.live
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.overhead

clean:
	rm -rf $(VENV)

$(VENV)/.run: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Warmgate needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing (Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(PIP) install -c $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) install -c $(CONSTRAINTS) -e '.[test]'
	@touch $@
