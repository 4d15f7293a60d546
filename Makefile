# Two commands: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2
SOAK_MINUTES ?= 45

# What was compiled is kept, whatever the shell says: tests start many programs, and each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test soak lint bench peers clean

demo: .venv/ready
	$(BIN)/halflife demo

test: .venv/ready lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: .venv/ready
	SOAK_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m soak tests

bench: .venv/ready
	$(BIN)/python -m bench

# Other libraries that `make bench` runs beside ours, each in an environment of its own, as their pins differ.
peers:
	$(PYTHON) -m venv .peers/opendp && .peers/opendp/bin/python -m pip install --quiet 'opendp[polars]' pyarrow
	$(PYTHON) -m venv .peers/pipelinedp && .peers/pipelinedp/bin/python -m pip install --quiet pipeline-dp pandas pyarrow
	$(PYTHON) -m venv .peers/tumult && .peers/tumult/bin/python -m pip install --quiet setuptools 'tmlt.analytics==0.20.2'

# The pinned versions are tried first; requirements.txt names no index, so your own pip settings apply.
# Python compiles what is imported, about a quarter of the files; that pip compiles all of them doubles its CPU time.
.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("halflife needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf .venv .peers build halflife-demo
