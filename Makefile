# Each target does its own set-up; a fresh machine needs only Python 3.11+, make and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .venv-peers
LOWEST := .venv-lowest
CLEANLAB := .venv-cleanlab
OPENDATAVAL := .venv-opendataval

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-browser lint types unit lowest fuzz bench bench-peers bench-precision bench-labels clean

help:           ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: .*## /\t/' | expand -t 18

demo: $(VENV)/.installed    ## value the rows of an embedded real data set (under two minutes)
	$(BIN)/dshapley demo

# Tests that are marked slow (long compilations and simulations) or real (worker processes that are
# killed) are left out, and so are the examples in docstrings. The slowest ten are named at the end.
quick: lint types           ## linter, type check and the quick tests (under two minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow and not real' --durations=10 tests

test: lint types unit       ## linter, type check and tests (a quarter of an hour)

# Chromium is installed if this is Debian and the user is root; otherwise one line says what to do.
test-browser: $(VENV)/.installed-browser   ## reports in a real browser (two minutes)
	@$(BIN)/python tests/browser/chromium.py
	$(BIN)/python -m pytest tests/browser

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

unit: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered

# The lowest versions have wheels for Python 3.11 and 3.12. The install is not editable because
# numba's cache beside the source belongs to the numba of $(VENV).
lowest: $(LOWEST)/bin/python   ## every command once, with the oldest dependencies allowed (three minutes)
	$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --only-binary :all: --constraint $(LOWEST)/constraints.txt .
	$(LOWEST)/bin/python tools/smoke.py

fuzz: $(VENV)/.installed-test   ## thousands of mutated files and tables (ten minutes)
	DSHAPLEY_FUZZ=3000 $(BIN)/python -m pytest -n 2 tests/test_documents.py tests/test_tables.py

bench: $(VENV)/.installed-test   ## speed, as ratios taken in one run
	$(BIN)/python -m benchmarks $(DATA)

bench-peers: $(VENV)/.installed-test $(PEERS)/.installed   ## speed beside pyDVL (under five minutes)
	$(BIN)/python -m benchmarks.peers

bench-precision: $(VENV)/.installed-test   ## error against seconds of each way to draw (20 minutes)
	$(BIN)/python -m benchmarks.precision $(DATA)

# OpenDataVal's environment has PyTorch, 5 GB with CUDA; WITH_OPENDATAVAL=no leaves it out.
LABEL_PEERS := $(PEERS) $(CLEANLAB) $(if $(filter no,$(WITH_OPENDATAVAL)),,$(OPENDATAVAL))
bench-labels: $(VENV)/.installed-test $(LABEL_PEERS:=/.installed)   ## finding wrong labels beside other tools (half an hour; DATA=folder)
	$(BIN)/python -m benchmarks.labels $(DATA)

clean:          ## remove the virtual environments, compiled loops and what tools left behind
	find src -name '*.nb[ci]' -delete
	rm -rf $(VENV) $(PEERS) $(LOWEST) $(CLEANLAB) $(OPENDATAVAL) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "dshapley needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-browser: pyproject.toml | $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,browser]'
	@touch $@

$(LOWEST)/bin/python:
	$(PYTHON) -m venv $(LOWEST)

# pyDVL needs numpy 1, dshapley numpy 2; there are wheels of both for Python 3.11 and 3.12.
$(PEERS)/.installed:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'pyDVL==0.10.0' 'numpy<2' scikit-learn threadpoolctl
	@touch $@

$(CLEANLAB)/.installed:
	$(PYTHON) -m venv $(CLEANLAB)
	$(CLEANLAB)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'cleanlab==2.9.0' 'numpy==2.4.6' 'scikit-learn==1.9.1'
	@touch $@

# By itself it takes a transformers too new for the PyTorch that it asks for, and cannot be imported.
$(OPENDATAVAL)/.installed:
	$(PYTHON) -m venv $(OPENDATAVAL)
	$(OPENDATAVAL)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'opendataval==1.3.0' 'transformers<4.38' 'numpy<2'
	@touch $@
