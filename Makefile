# `make demo` and `make test` need only Python 3.11+ and make; everything else is installed into $(VENV).
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check -q
export PIP_NO_INPUT = 1

.PHONY: demo test check fuzz peers conformance clients bundles bench soak golden docs proto clean

demo: $(VENV)/.doors
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto tests

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

SECONDS ?= 600
fuzz: $(VENV)/.dev          # the generated tests with new examples, until the time is over; what fails is printed with its seed
	$(BIN)/python tests/fuzz.py $(SECONDS) $(TESTS)

peers: $(VENV)/.dev         # our ranking inside other frameworks, each in an environment of its own; clients written for Node
	ONHAND_PEERS=$(VENV)/peers $(BIN)/python -m pytest -n 2 tests/e2e/test_peers.py tests/e2e/test_grpc.py tests/e2e/test_acp.py

conformance: $(VENV)/.node  # the official MCP suite, from npm: our server, a server behind us, and us as a client
	ONHAND_CONFORMANCE=$(VENV)/conformance PYTHONPATH=tests $(BIN)/python -m conformance.run

clients: $(VENV)/.node       # Claude Code, Codex, Gemini CLI and opencode from npm: what their models receive of us
	ONHAND_CLIENTS=$(VENV)/clients PYTHONPATH=tests $(BIN)/python -m clients.run

bundles: $(VENV)/.node       # plugins, an extension, a bundle and links in dist/bundles, validated with the clients' own tools
	$(BIN)/python -m bundles.generate
	ONHAND_BUNDLES=dist/bundles ONHAND_CLIENTS=$(VENV)/clients PYTHONPATH=tests $(BIN)/python -m clients.run bundles

bench: $(VENV)/.bench
	ONHAND_PEERS=$(VENV)/peers $(BIN)/python -m benchmarks

soak: $(VENV)/.dev          # the gateway under load for SOAK_SECONDS (120 by default, at most 600): nothing may grow or be lost
	$(BIN)/python -m benchmarks.soak

golden: $(VENV)/.dev        # rewrites tests/golden/*; read the diff before you commit it
	ONHAND_GOLDEN=write $(BIN)/python -m pytest tests/golden

docs: $(VENV)/.dev          # rewrites docs/reference/*; the tests check that they are current
	$(BIN)/python -m docs.generate

proto: $(VENV)/.proto       # compiles proto/ with the oldest compiler that we support: its output works with all newer ones
	$(VENV)/proto/bin/python -m grpc_tools.protoc -I onhand/grpc=proto/onhand/search/v1 \
		--python_out=src --pyi_out=src onhand/grpc/search.proto

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis dist

$(VENV)/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "onhand needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "creating $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt pip
	@touch $@

$(VENV)/.base: pyproject.toml constraints.txt | $(VENV)/.pip
	@echo "installing onhand …"
	@$(PIP) install -c constraints.txt -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.doors: $(VENV)/.base
	@echo "installing what the doors need …"
	@$(PIP) install -c constraints.txt -e '.[mcp,grpc]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "installing the development tools …"
	@$(PIP) install -c constraints.txt --group dev
	@touch $@

$(VENV)/.proto: | $(VENV)/.pip
	@$(PYTHON) -m venv $(VENV)/proto
	@$(VENV)/proto/bin/python -m pip --disable-pip-version-check -q install 'grpcio-tools==1.75.*' 'setuptools<81'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "installing the peers to measure against …"
	@$(PIP) install -c constraints.txt --group bench
	@touch $@

$(VENV)/.node: $(VENV)/.dev
	@echo "installing Node …"
	@$(PIP) install -c constraints.txt --group node
	@touch $@
