# `make demo` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# SYSTEM_TORCH=1: see the packages that $(PYTHON) has already and do not pin torch, so that a suitable one is kept.
VENV_FLAGS := $(if $(SYSTEM_TORCH),--system-site-packages)
PINNED := $(if $(SYSTEM_TORCH),,--constraint constraints.txt)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PINNED)

.PHONY: demo test check format clean
.DEFAULT_GOAL := help
.PHONY: help
help:
	@echo "make demo    install and run the main job: who speaks? (about three minutes)"
	@echo "make test    install what tests need, then style, types and all tests"
	@echo "make check   style and types only"
	@echo "make format  rewrite the files in the house style"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unrolled needs Python 3.11 or newer, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV_FLAGS) $(VENV)

$(VENV)/.train: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[train]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.train

demo: $(VENV)/.train
	$(BIN)/unrolled demo

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Two workers with one thread each: results do not depend on it, and two cores are not fought over.
test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
