# The only list of commands. Each one sets up what it needs: Python >= 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test lint format soak bench reproduce clean

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

reproduce: $(READY)  ## the papers' figures that are scripted so far; an hour; finished cells are kept
	for script in reproductions/*/*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
