# What a person can do here. `make` alone runs what CI runs.

VENV := .venv
BIN := $(VENV)/bin
# The lock file decides what is installed; uv itself comes into the environment where the machine has none.
UV := $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)
export UV_PROJECT_ENVIRONMENT := $(VENV)
# An environment that happens to be active is not ours to change.
unexport VIRTUAL_ENV

# The published clients want an environment of their own.
INTEROP := interop/.venv
# So does each version of mem0's client.
MEM0 := 0.1.118 1.0.11 2.2.1
# So does each of the clients in JavaScript.
JAVASCRIPT := ag-ui-1.0.0 ag-ui-0.0.59 copilotkit-1.75.0

.DEFAULT_GOAL := check
.PHONY: check demo test interop lint fix eval bench chaos help

check: lint test interop  ## Lint, test, and drive the published clients: what CI runs

demo: $(VENV)/ready  ## Start Threadkeep with a demo agent behind it
	@mkdir -p .demo
	@$(BIN)/python -m threadkeep.demo

# As many processes as there are cores, each with servers of its own.
PYTEST := python -m pytest --numprocesses auto --dist worksteal

test: $(VENV)/ready  ## Run all tests: on both engines, and on SQLite with the older line of AG-UI
	$(BIN)/$(PYTEST)
	$(UV) run --quiet --isolated --all-extras --with 'ag-ui-protocol<0.2' --with 'agent-framework-ag-ui>=1.7' \
		$(PYTEST) -k 'not postgresql' tests/chat_history tests/embedded tests/gateway \
		tests/integrations/agent_framework_ag_ui tests/integrations/agent_framework/test_ag_ui.py

interop: $(INTEROP)/ready $(MEM0:%=interop/.venv-mem0-%/ready) $(JAVASCRIPT:%=interop/js/%/node_modules/ready)  ## Drive the published clients and ours by the same scenarios, and compare what is stored
	$(BIN)/python -m interop

lint: $(VENV)/ready  ## Check format, style, imports and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

fix: $(VENV)/ready  ## Format, and mend what can be mended by itself
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

eval: $(VENV)/ready  ## Say how good extraction is on the labelled set, by the model of THREADKEEP_LLM_BASE_URL or by rules
	$(BIN)/python -m eval

bench: $(VENV)/ready  ## Measure, as ratios in one run
	$(BIN)/python -m bench

chaos: $(VENV)/ready  ## Kill gateways for two minutes while clients talk, and look for what was lost
	THREADKEEP_CHAOS_SECONDS=120 $(BIN)/python -m pytest tests/e2e/test_chaos.py

help:  ## Say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(VENV)/ready: pyproject.toml uv.lock
	@command -v uv >/dev/null 2>&1 || test -x $(BIN)/uv || { python3 -m venv $(VENV) && $(BIN)/python -m pip install --quiet uv; }
	$(UV) sync --quiet --locked --all-extras
	@touch $@

$(INTEROP)/ready: $(VENV)/ready interop/requirements.txt
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(INTEROP)
	$(UV) pip sync --quiet --python $(INTEROP)/bin/python interop/requirements.txt
	$(UV) pip install --quiet --python $(INTEROP)/bin/python --no-deps --editable .
	@touch $@

interop/.venv-mem0-%/ready: interop/mem0/%.txt $(VENV)/ready
	$(UV) venv --quiet --allow-existing --python $(BIN)/python interop/.venv-mem0-$*
	$(UV) pip sync --quiet --python interop/.venv-mem0-$*/bin/python $<
	@touch $@

interop/js/%/node_modules/ready: interop/js/%/package.json interop/js/%/package-lock.json
	cd interop/js/$* && npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@
