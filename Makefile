# The only list of commands. Each one sets up what it needs: Python >= 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export OMP_NUM_THREADS ?= 1
each_experiment = for name in `$(BIN)/python -m streamgp.reproduce --names`; do \
	$(BIN)/python -m streamgp.reproduce $$name --jobs 2 $(1) || exit 1; done

.PHONY: help demo test lint format soak bench reproduce reproduce-quick clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $(READY)

demo: $(READY)  ## track a short stream, print its scores, write a plot
	$(BIN)/python examples/demo.py

test: $(READY)  ## the whole test suite but the soaks
	$(BIN)/python -m pytest -m "not soak"

lint: $(READY)  ## format, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(READY)  ## rewrite the sources in the house format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

soak: $(READY)  ## millions of rows against references; minutes
	$(BIN)/python -m pytest -m soak -s

bench: $(READY)  ## measure, and write benchmarks/results
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

reproduce: $(READY)  ## the papers' tables and figures; hours; finished cells are kept
	$(call each_experiment,)
	$(BIN)/python -m streamgp.reproduce --page docs/reproductions.md

reproduce-quick: $(READY)  ## a small run of each of them, into out/reproductions; minutes
	$(call each_experiment,--quick)

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
