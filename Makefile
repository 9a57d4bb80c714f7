# Every target sets up what it needs. `make help` lists them.
# PYTHON=... chooses the interpreter of the virtual environment, ARGS="..." is passed to the command of a target.

VENV := .venv
PY := $(VENV)/bin/python
# Two environments in one folder, each with its stamp: the packages that the command needs, and those for development.
RUNS := $(VENV)/.ready-to-run
READY := $(VENV)/.ready
RUN_LOCK := requirements-run.lock
LOCK := requirements.lock
DOCS_LOCK := requirements-docs.lock
WORKERS ?= 2
APP ?= retail
# The seed of a run: make test-long SEED=... repeats it.
SEED := $(shell date +%s)
PYTHON ?= python3.13 python3.12 python3.11 python3 python
PYTEST := $(PY) -m pytest
# loadgroup: tests of one group (those of one Spark session) stay in one process.
PARALLEL = -n $(WORKERS) --dist loadgroup

EXTRAS = --extra cli --extra spark-connect --extra s3 --extra sql --extra delta --extra iceberg
COMPILE = $(PY) -m uv pip compile --quiet --no-config --default-index https://pypi.org/simple \
  --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"

# Hundreds of processes that tests start, and two that collect, import the package: compiled once for all of them.
unexport PYTHONDONTWRITEBYTECODE

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.PHONY: help run test test-long examples check format bench docs wheel lock setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

run: $(RUNS) ## keep the retail views current over generated orders; APP=visits for the other application; ARGS="..." for `evercurrent run`
	@$(VENV)/bin/evercurrent run $(APP) $(ARGS)

test: $(READY) ## all tests and doctests; ARGS="..." for pytest, WORKERS=0 for one process
	@$(PYTEST) $(PARALLEL) $(ARGS)

test-long: $(READY) ## the same with many more examples, others each time; SEED=... repeats an earlier run
	@echo "to repeat this run: make test-long SEED=$(SEED)"
	@EVERCURRENT_TEST_PROFILE=long $(PYTEST) $(PARALLEL) --hypothesis-seed=$(SEED) $(ARGS)
	@echo "to repeat this run: make test-long SEED=$(SEED)"

examples: $(READY) ## choose the examples of laws that `make test` runs; ARGS="tests/laws/test_undo.py" for these, none for all that have some
	@$(PY) tests/choose_examples.py $(ARGS)

test-versions: $(PY) ## the tests with each set of versions in tests/versions/sets.toml; ARGS="--only lowest" for one set
	@$(PY) -m pip install --quiet uv
	@$(PY) tests/versions/run_sets.py $(ARGS)

check: $(READY) ## format, lint, types, layers, and that the pages and the notebook show what their code prints; TESTED=yes after `make test`: format, lint and types only
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(if $(TESTED),,$(PYTEST) -q tests/test_layers.py tests/test_readme.py tests/test_snippets.py \
	  tests/spark/test_snippets_in_spark.py tests/test_typed_examples.py tests/test_notebook.py)

format: $(READY) ## format the code, and fix what ruff can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(READY) ## run the benchmarks; ARGS="..." for bench/run.py
	@$(PY) bench/run.py $(ARGS)

docs: $(READY) ## draw docs/figures from runs, run the notebook, write docs/features.md, and build the site of the documentation in site/
	@$(PY) docs/make_figures.py
	@$(PY) docs/make_notebook.py
	@$(PY) docs/make_features.py
	@$(PY) -m pip install --quiet --require-hashes --requirement $(DOCS_LOCK)
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

wheel: $(READY) ## build dist/*.tar.gz and, from it, dist/*.whl
	@rm -rf dist build
	@$(PY) -m build --quiet --no-isolation --outdir dist

lock: $(PY) ## update both lock files from pyproject.toml; ARGS="--upgrade" for newer versions
	@$(PY) -m pip install --quiet uv
	@$(COMPILE) --group dev $(EXTRAS) --output-file $(LOCK) $(ARGS) pyproject.toml
	@$(COMPILE) --group install --extra cli --constraint $(LOCK) --no-annotate --output-file $(RUN_LOCK) pyproject.toml
	@$(COMPILE) --group docs --constraint $(LOCK) --no-annotate --output-file $(DOCS_LOCK)

setup: $(READY) ## set up the virtual environment, and nothing else

clean: ## remove all generated files, and the virtual environment
	rm -rf $(VENV) .versions build dist site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each candidate is run: a name on the PATH may stand for a Python that is missing, too old, or has no ensurepip.
$(PY):
	@for python in $(PYTHON); do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "$(VENV): made with $$("$$python" --version)"; \
	    exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "evercurrent needs Python 3.11 or newer with the module venv. Tried: $(PYTHON)." >&2; \
	echo "Install one (Debian: apt install python3 python3-venv) or name one: make PYTHON=/path/to/python3.12" >&2; \
	exit 1

# The order-only prerequisite: pip touches bin/, which must not make the environment look old.
$(RUNS): pyproject.toml core/data/release.py $(RUN_LOCK) | $(PY)
	@echo "$(VENV): installing $(RUN_LOCK)"
	@$(PY) -m pip install --quiet --require-hashes --requirement $(RUN_LOCK)
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(READY): $(RUNS) $(LOCK)
	@echo "$(VENV): installing $(LOCK), with Spark: a minute or two"
	@$(PY) -m pip install --quiet --require-hashes --requirement $(LOCK)
	@touch $@
