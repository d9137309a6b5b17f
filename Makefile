# The commands of this repository. `make demo` and `make test` need only Python (3.10 or newer) and git:
# they prepare ./.venv themselves, from requirements.lock, and do nothing when it is up to date.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check style types layers lock clean

help:
	@echo "make demo    run the offline examples"
	@echo "make test    run all tests and check their coverage"
	@echo "make check   everything that CI checks: style, types, layers, tests"
	@echo "make lock    write requirements.lock again, after a change of pyproject.toml"
	@echo "make clean   remove what the other commands made"

demo: $(READY)
	@echo "--- examples/basic.py: a model calls a tool"
	@$(BIN)/python examples/basic.py
	@echo "--- examples/streaming.py: the same, event by event"
	@$(BIN)/python examples/streaming.py

# What measures time runs first, alone and without coverage, and then everything else.
test: $(READY)
	$(BIN)/python -m pytest -m no_cover
	$(BIN)/python -m pytest -m "not no_cover" -n 2 --dist loadfile --cov=zett_agent

check: style types layers test

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

layers: $(READY)
	$(BIN)/lint-imports

# `-e` only adds ./src to the path, and the build backend comes from the lock too: nothing is resolved here.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "Python 3.10 or newer is needed; say which one with: make PYTHON=python3.x"; exit 1; }
	@echo "Preparing .venv with $$($(PYTHON) --version) and the packages of requirements.lock"
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

# The lock holds names, versions and hashes, and no address: any package index will do.
lock: $(READY)
	$(BIN)/uv lock --no-python-downloads --upgrade
	$(BIN)/uv export --quiet --locked --no-python-downloads --all-extras --no-emit-project \
	  --no-header --no-annotate --output-file requirements.lock

clean:
	rm -rf .venv uv.lock .coverage .coverage.* htmlcov .pytest_cache .ruff_cache .hypothesis \
	  .import_linter_cache dist build
