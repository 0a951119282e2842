# `make run` and `make test` set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CHECK := 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v[:2] < (3, 14) else "fedscan needs Python 3.11, 3.12 or 3.13, and this is %d.%d: name another, make run PYTHON=python3.12" % v[:2])'

# The library's tests without what compiles kernels; then a room's, or what is above the rooms.
LIBRARY := data federated io measure models operators params problems theory
ABOVE := pipeline config report cli views
ROOMS := $(notdir $(patsubst %/,%,$(filter-out %/__pycache__/,$(wildcard tests/experiments/*/))))
ifneq ($(filter-out $(ROOMS),$(ROOM)),)
$(error no room $(ROOM); there are: $(ROOMS))
endif
CHECKED = $(if $(ROOM),experiments/$(ROOM),$(ABOVE))

.PHONY: run check test test-slow lint browser slurm clean

run: $(VENV)/.installed
	$(BIN)/snakemake --cores all --workflow-profile workflow/profiles/default

check: lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" --durations=3 --ignore tests/models/selective_ssm \
	  tests/test_architecture.py tests/test_docs.py tests/test_seeds.py \
	  $(addprefix tests/,$(LIBRARY) $(CHECKED))

test: $(VENV)/.installed-dev lint browser slurm
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

test-slow: $(VENV)/.installed-dev
	$(BIN)/pytest -m slow

browser:
	tests/install_browser.sh

slurm:
	tests/install_slurm.sh

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c $(CHECK)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf results .snakemake
