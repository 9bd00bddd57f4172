# One .venv serves demo, test and benchmarks; it is built when it is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(VENV)/.dev
ENGINES := $(VENV)/.engines
EXTRAS := dev
# pip would compile all 16,000 files of all libraries; Python compiles those that it imports
PIP_OPTIONS := --quiet --disable-pip-version-check --no-compile -c constraints.txt
# kept, else each process compiles what it imports anew, which takes it three seconds
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: demo test test-engines test-slow golden size mutants kernels lint docs dist bench clean clean-kernels setup

# what a user installs, and nothing else
demo: EXTRAS :=
demo: $(STAMP)
	$(BIN)/prsrank demo --out demo

test: $(DEV)
	@$(MAKE) --no-print-directory -j2 lint kernels
	$(BIN)/pytest -n auto

# what needs Java, Chromium or PyTorch; where there is no Java or Chromium its tests skip themselves, with the reason
test-engines: $(ENGINES)
	$(BIN)/mypy
	$(BIN)/pytest -n auto -m "(spark or browser or neural) and not slow and not gpu"

# then all kernels compiled anew with every index looked at: a cache would bring back those that look at none
test-slow: $(ENGINES)
	$(BIN)/pytest -n auto -m slow
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$$(mktemp -d) $(BIN)/pytest -n auto tests/clicks tests/data tests/evaluation tests/logs tests/losses tests/metrics tests/pairs tests/propensity tests/relevance

# faults planted one by one in a copy of the source: each must be noticed by the tests named for it
mutants: $(DEV)
	$(BIN)/python tests/mutants/planted.py

# stored logs fitted and compared with what is recorded; after any change that should leave results alone
golden: $(DEV)
	$(BIN)/python tests/golden/golden.py

# what the code holds, per package, beside its budget; a report, not a failure
size: $(DEV)
	$(BIN)/python tools/size.py --modules

# compiled here once, else each process of the tests compiles them
kernels: $(DEV)
	@out=$$(mktemp -d); $(BIN)/prsrank demo --clicks 800 --out $$out >$$out/said && rm -r $$out

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --follow-imports=silent --exclude '/(neural|spark)/'
	$(BIN)/python tools/size.py

docs: $(DEV)
	$(BIN)/mkdocs build
	@echo "written: site/index.html"

dist: $(DEV)
	$(BIN)/python -m hatchling build -d dist

bench: $(DEV)
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file; done

setup: $(DEV)

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found: install Python 3.11 or newer, or name it: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1): install Python 3.11 or newer, or name it: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "error: $(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv)" >&2; exit 2; }
	@[ "$$(uname)" != Linux ] || $(PYTHON) -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null || { echo "error: libgomp is missing, which LightGBM needs: install it (Debian: apt-get install libgomp1; Fedora: dnf install libgomp)" >&2; exit 2; }
	@echo "setting up $(VENV) (a few minutes the first time)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(PIP_OPTIONS) -e '.$(if $(EXTRAS),[$(EXTRAS)])'
	@$(BIN)/python -c 'import prsrank.cli.demo, lightgbm, vl_convert'
	@touch $@ $(if $(findstring dev,$(EXTRAS)),$(DEV))

$(DEV): $(STAMP)
	@echo "adding what tests and benchmarks need to $(VENV)"
	@$(BIN)/python -m pip install $(PIP_OPTIONS) -e '.[dev]'
	@touch $@

$(ENGINES): $(DEV)
	@echo "adding Spark and PyTorch to $(VENV) (a gigabyte)"
	@$(BIN)/python -m pip install $(PIP_OPTIONS) -e '.[dev,dnn,spark]'
	@touch $@

clean-kernels:
	find src -name '*.nb[ci]' -delete

clean:
	rm -rf $(VENV) demo site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
