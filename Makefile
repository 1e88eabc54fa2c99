# `make run` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CONSTRAINTS := deploy/constraints.txt

COMPILED := build/compiled

PORT ?= 8080
WORKERS ?= 3
STRATEGY ?= prefix_aware

# Without bytecode, every process that a command or a test starts would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test unit e2e test-compiled engine-test bedrock-test identity-test files-test dynamo-test trace-test deploy-test image-test store-test proxy-test picker-test picker-chaos rolling-test console-test console-pages-test what-if-test acceptance batch-chaos batch-memory fuzz fuzz-bodies sdk-smoke lint style types bench peers replay report docs wheel release clean

run: $(VENV)/.run
	@exec $(BIN)/warmgate demo --port $(PORT) --workers $(WORKERS) --strategy $(STRATEGY)

# Types are checked beside the tests: one process takes the turns that the others leave. Nothing here depends on the speed
# of the machine, on real time or on processes that it starts: such tests are marked e2e, or redis (`make store-test`).
test: style
	@$(MAKE) --no-print-directory --jobs=2 types unit

# The core is measured where it is tested, so that measuring slows down nothing else.
CORE_TESTS := tests/cache_index tests/routing tests/contracts/test_dispatcher.py tests/contracts/test_strategy.py
UNIT := -n logical --dist worksteal -m "not e2e and not redis"
unit: $(VENV)/.test
	$(BIN)/pytest $(UNIT) $(CORE_TESTS) --cov --cov-report=term --cov-fail-under=100
	$(BIN)/pytest $(UNIT) $(addprefix --ignore=,$(CORE_TESTS) tests/e2e tests/security)

# Real gateways, real processes and real time: all of tests/e2e and tests/security, and what is marked e2e elsewhere.
e2e: $(VENV)/.test
	$(BIN)/pytest -n logical --dist loadfile -m "e2e and not redis"

# What a request goes through, compiled by mypyc as the image has it, has to behave as the sources do. Needs a C compiler.
# Tests whose doubles inherit from what is compiled (marked interpreted) are left out; tests/e2e goes through it all.
test-compiled: wheel
	rm -rf $(COMPILED) && mkdir -p $(COMPILED)
	$(BIN)/python -m zipfile -e dist/warmgate-*.whl $(COMPILED)
	cp -r tests benchmarks docs pyproject.toml README.md $(COMPILED)
	cd $(COMPILED) && $(abspath $(BIN))/python -m pytest -n logical --dist loadfile -m "not interpreted" tests/cache_index tests/routing tests/contracts tests/e2e \
		$(addprefix tests/gateway/,protocol proxy models backends/upstream tenancy server telemetry)

# Looks for longer than a run of all tests can: 10,000 examples each, and schemathesis on /openapi.json.
fuzz: $(VENV)/.test
	$(PIP) install -c $(CONSTRAINTS) -e '.[test,fuzz]'
	$(BIN)/pytest tests/fuzz tests/gateway/backends/upstream/test_oracle.py --hypothesis-profile=fuzz -o timeout=1800
	$(BIN)/python -m tests.fuzz
	$(BIN)/python -m tests.fuzz.shapes --seconds $(FUZZ_S)

# Bodies of hostile shape made by chance, to the real gateway, each judged by the time and memory that it takes.
FUZZ_S ?= 300
fuzz-bodies: $(VENV)/.test
	$(BIN)/python -m tests.fuzz.shapes --seconds $(FUZZ_S)

wheel: $(VENV)/.test
	rm -f dist/warmgate-*.whl
	WARMGATE_COMPILE=1 $(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

# The gateway before two real vLLM engines on the CPU; installs them beside, 3.4 GB, on the first run.
engine-test: $(VENV)/.test
	$(BIN)/python -m tests.engine.environment
	$(BIN)/pytest tests/engine

# The gateway before a stand-in for Bedrock from npm, with all workers gone; installs that beside, and AWS's own signer.
bedrock-test: $(VENV)/.test
	$(BIN)/python -m tests.bedrock.environment
	$(BIN)/pytest tests/bedrock

# The gateway with a real OpenID provider from npm, whose keys, clock and outages the tests control; installs it beside.
identity-test: $(VENV)/.test
	$(BIN)/python -m tests.identity.environment
	$(BIN)/pytest tests/identity -o timeout=300

# Files and batches whose contents are in a real object store with the API of Amazon S3, which is killed as gateways are;
# installs it beside, 170 MB. Needs Redis, which is installed where there is none (by Debian's apt-get).
files-test: $(VENV)/.test
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || \
		$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get install --yes --no-install-recommends redis-server
	$(BIN)/python -m tests.files.environment
	TEST_REDIS=required $(BIN)/pytest tests/files -o timeout=300

# Traces read back from Arize Phoenix, a receiver from PyPI; installs it beside, 0.9 GB, on the first run.
trace-test: $(VENV)/.test
	$(BIN)/python -m tests.phoenix.environment
	$(BIN)/pytest tests/phoenix -o timeout=180

# The gateway before NVIDIA Dynamo's own frontend and mocked workers, without GPU, etcd and NATS; installs them beside,
# 400 MB. Some two minutes.
dynamo-test: $(VENV)/.test
	$(BIN)/python -m tests.dynamo.environment
	$(BIN)/pytest tests/dynamo

# The chart rendered by Helm's own library, the examples, the image's linter; installs these beside, 1 GB with our own.
# Then a real Prometheus beside a real run: every panel and alert has an answer, and alerts fire when things break.
deploy-test: $(VENV)/.test
	@apt="$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get"; \
		command -v promtool >/dev/null && command -v redis-server >/dev/null || \
		$$apt install --yes --no-install-recommends prometheus redis-server || \
		{ $$apt update && $$apt install --yes --no-install-recommends prometheus redis-server; }
	$(BIN)/python -m tests.deploy.environment
	TEST_REDIS=required .venv-deploy/bin/pytest tests/deploy

# The Dockerfile built by buildah on a Debian made by debootstrap, both installed by apt-get; then what it makes is run as
# its user on a read-only root. Needs root, 4 GB of disk, and some five minutes of processor time.
image-test: $(VENV)/.test
	$(BIN)/python -m tests.image.environment
	$(BIN)/pytest tests/image -o timeout=300

# What is kept in Redis, on a real one, which is installed where there is none (by Debian's apt-get).
store-test: $(VENV)/.test
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || \
		$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get install --yes --no-install-recommends redis-server
	TEST_REDIS=required $(BIN)/pytest -m redis

# Three gateways before one Redis, 200 clients, kills in the middle: some ten minutes. ACCEPTANCE_S shortens its two runs.
ACCEPTANCE_S ?= 180
acceptance: $(VENV)/.test
	TEST_REDIS=required ACCEPTANCE_S=$(ACCEPTANCE_S) $(BIN)/pytest tests/acceptance -s -o timeout=1800

# A batch of 5,000 lines on three gateways before one Redis, of which one is killed every ten seconds; some minutes.
batch-chaos: $(VENV)/.test
	TEST_REDIS=required $(BIN)/pytest tests/acceptance/test_batch_chaos.py -s -o timeout=1800

# Memory of a gateway that validates a batch of 50,000 lines and 200 MB; a minute.
batch-memory: $(VENV)/.test
	$(BIN)/pytest tests/acceptance/test_batch_memory.py -s -o timeout=1800

# The gateway behind a real nginx and a real HAProxy, as docs/how-to/behind-a-proxy.md has them and with their defaults.
proxy-test: $(VENV)/.test
	@export PATH="$$PATH:/usr/sbin"; apt="$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get"; \
		command -v haproxy >/dev/null && command -v nginx >/dev/null || \
		$$apt install --yes --no-install-recommends haproxy nginx-light || \
		{ $$apt update && $$apt install --yes --no-install-recommends haproxy nginx-light; }
	$(BIN)/pytest tests/proxies

# The endpoint picker with a real Envoy before simulated workers; installs Envoy beside, 110 MB. Its replicas share a Redis.
picker-test: $(VENV)/.test
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || \
		$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get install --yes --no-install-recommends redis-server
	$(BIN)/python -m tests.picker.environment
	TEST_REDIS=required $(BIN)/pytest -n logical --dist loadfile tests/picker -o timeout=600

# Which requests fail while workers, pickers and Envoys are killed and drained under load; SECONDS=120 is a short run.
picker-chaos: $(VENV)/.test
	$(BIN)/python -m tests.picker.environment
	$(BIN)/python -m benchmarks.picker.chaos --seconds $(or $(SECONDS),600)

# Two gateways behind a real HAProxy, restarted one after the other under load; some two minutes.
rolling-test: $(VENV)/.test
	@command -v haproxy >/dev/null || test -x /usr/sbin/haproxy || \
		$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get install --yes --no-install-recommends haproxy
	$(BIN)/pytest tests/rolling -s -o timeout=600

# All of the console: its pages, and the accuracy of its replays. The pages run in a real Chromium (from Debian) before the
# demo under load, driven by Playwright and checked by axe-core, in some minutes on any machine.
CHROMIUM = @test -x /usr/bin/chromium || { apt="$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get"; \
	$$apt install --yes --no-install-recommends chromium fonts-dejavu-core || \
	{ $$apt update && $$apt install --yes --no-install-recommends chromium fonts-dejavu-core; }; }
console-test: console-pages-test what-if-test

console-pages-test: $(VENV)/.test
	$(CHROMIUM)
	$(PIP) install -c $(CONSTRAINTS) -e '.[test,console-test]'
	$(BIN)/pytest tests/console -n2 --dist loadfile --ignore=tests/console/test_what_if.py

# A replay of recorded requests compared with what really happens under three strategies. It takes real time, so the machine
# should do nothing else: four minutes. If a difference is too large, two more rounds follow, and their medians count.
what-if-test: $(VENV)/.test
	$(BIN)/pytest -s tests/console/test_what_if.py

# The SDKs for Node and of Anthropic against the demo; installs them beside.
sdk-smoke: $(VENV)/.run
	$(BIN)/python -m tests.sdk

lint: style types

style: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m tests.language

types: $(VENV)/.test
	$(BIN)/mypy

bench: $(VENV)/.test replay
	$(BIN)/python -m benchmarks.index
	$(BIN)/python -m benchmarks.tokenizing
	$(BIN)/python -m benchmarks.decision
	$(BIN)/python -m benchmarks.scenarios
	$(BIN)/python -m benchmarks.live
	$(BIN)/python -m benchmarks.receipts
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.streams
	$(BIN)/python -m benchmarks.many_streams
	$(BIN)/python -m benchmarks.stalls
	$(BIN)/python -m benchmarks.hostile
	$(BIN)/python -m benchmarks.replicas
	$(BIN)/python -m benchmarks.fairness
	$(BIN)/python -m benchmarks.disaggregation
	$(BIN)/python -m benchmarks.rollout
	$(BIN)/python -m benchmarks.adapters
	$(BIN)/python -m benchmarks.chaos
	$(BIN)/python -m benchmarks.chaos --all-down
	$(BIN)/python -m benchmarks.guardrails
	$(BIN)/python -m benchmarks.overhead

# Routers of other projects, each in an environment of its own under .peers/, to be measured with ours by
# `python -m benchmarks.peers`; 1.2 GB. Its scenario aiperf installs that load generator when it is first run, 1.2 GB more.
peers: $(VENV)/.test
	$(BIN)/python -m benchmarks.peers.environment

# Every table of strategies on recorded traffic; virtual time, so any machine will do.
replay: $(VENV)/.test
	$(BIN)/python -m benchmarks.replay --seeds 5 --processes 2
	$(BIN)/python -m benchmarks.replay.tiers --seeds 5 --processes 2
	$(BIN)/python -m benchmarks.replay.subagents --processes 2

# What a release consists of, in dist/: wheel, source distribution, chart, SBOM, image archive, checksums. Pushes nothing.
# The image is skipped where buildah cannot run; RELEASE=--without-image skips it everywhere.
RELEASE ?=
release: $(VENV)/.test
	$(BIN)/python -m deploy.release $(RELEASE)

# The documentation site in build/docs/site, with every link and anchor checked; installs Zensical.
docs: $(VENV)/.test
	$(PIP) install -c $(CONSTRAINTS) -e '.[test,docs]'
	$(BIN)/python -m documentation

# Every page, chart and figure of docs/performance/at-a-glance.md again, from the figures that are stored in benchmarks/results; measures nothing.
report: $(VENV)/.test
	$(BIN)/python -m benchmarks.render
	$(BIN)/python -m documentation.pictures

clean:
	rm -rf $(VENV) .venv-sdk .venv-vllm .venv-bedrock .venv-identity .venv-files .venv-dynamo .venv-deploy .venv-phoenix .venv-envoy .image .peers build dist

$(VENV)/.run: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Warmgate needs Python 3.11 or newer: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "Installing Warmgate and 30 packages into $(VENV), 150 MB: about 15 s on a fast line. This happens once." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@began=$$(date +%s); $(PIP) install -c $(CONSTRAINTS) -e '.[console]' && echo "Installed in $$(($$(date +%s) - began)) s." >&2
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@echo "Installing 80 packages more for linters and tests, 440 MB: about 40 s on a fast line. This happens once." >&2
	@began=$$(date +%s); $(PIP) install -c $(CONSTRAINTS) -e '.[test]' && echo "Installed in $$(($$(date +%s) - began)) s." >&2
	@touch $@
