# Two commands work on a machine with python3, pip and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo report test test-all test-deep fuzz test-e2e test-clients test-action test-html test-remote test-live test-columnar lint format bench bench-peers calibrate compare-rivals golden wheel clean help

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

# Debian ships venv without ensurepip: there the machine's own pip installs into the environment.
$(BIN)/python:
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV); }

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "installing slo-gate and nine libraries into $(VENV), once: 10 to 40 s"
	@$(call PIP,install --quiet -e .)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing slo-gate and its development tools into $(VENV), once: a minute"
	@$(call PIP,install --quiet -e '.[dev]')
	@touch $@ $(VENV)/.run

$(VENV)/.action: $(VENV)/.dev
	@$(call PIP,install --quiet -e '.[dev-action]')
	@touch $@

$(VENV)/.study: $(VENV)/.dev
	@$(call PIP,install --quiet -e '.[dev-study]')
	@touch $@

PIP = if $(BIN)/python -m pip --version >/dev/null 2>&1; then $(BIN)/python -m pip $(1); \
	else $(PYTHON) -m pip --python $(BIN)/python $(1); fi

demo: $(VENV)/.run ## judge a real sweep: a build that passes, then one that is 15 % slower
	@examples/demo.sh $(BIN)/slo-gate

report: $(VENV)/.dev ## the regressed build of the demo as a page with charts: out/report.html
	@mkdir -p out
	@$(BIN)/slo-gate check examples/chat/regressed --policy examples/chat/slo.yaml \
		--baseline 'examples/chat/good/c016_run0*' --same-session --html out/report.html >/dev/null; \
		code=$$?; case $$code in 0|1|4) echo out/report.html ;; *) exit $$code ;; esac

test: $(VENV)/.dev ## run the tests
	@$(BIN)/python -m pytest -q $(PARALLEL) -m "not slow" $(PYTEST)

test-all: $(VENV)/.study ## the same, and the studies that take minutes
	@$(BIN)/python -m pytest -q $(PARALLEL) $(PYTEST)

# Neighbouring tests stay with one worker, which keeps what they share; what is left out has a target of its own.
PARALLEL = -n 2 --dist worksteal --ignore=tests/action --ignore=tests/npm --ignore=tests/html/test_page.py

test-deep: $(VENV)/.dev ## less is never greener, tried 10,000 times over all readers (SLO_GATE_EXAMPLES)
	@SLO_GATE_EXAMPLES=$${SLO_GATE_EXAMPLES:-10000} $(BIN)/python -m pytest -q -n 0 \
		--hypothesis-show-statistics tests/readers/test_less.py $(PYTEST)

$(VENV)/.fuzz: $(VENV)/.dev
	@$(call PIP,install --quiet -e '.[dev-fuzz]')
	@touch $@

fuzz: $(VENV)/.fuzz ## bytes from a stranger into every reader, policy, report and history line; TARGET=reader-vllm, FUZZ_SECONDS=60
	@$(BIN)/python -m tests.fuzz --seconds $${FUZZ_SECONDS:-60} $(TARGET)

# A browser from the distribution, its driver from PyPI, the accessibility rules from npm; none is committed.
# Node trusts its own authorities only: the machine's are added, where a proxy signs with one.
.cache/axe/node_modules/axe-core/axe.min.js: export NODE_EXTRA_CA_CERTS ?= $(wildcard /etc/ssl/certs/ca-certificates.crt)
.cache/axe/node_modules/axe-core/axe.min.js:
	@npm install --silent --no-fund --no-audit --prefix .cache/axe axe-core@4

$(VENV)/.browser: $(VENV)/.dev
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	@$(call PIP,install --quiet -e '.[browser]')
	@touch $@

test-live: $(VENV)/.dev ## pull from a real Prometheus
	@command -v prometheus >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; }
	@NEED_PROMETHEUS=1 $(BIN)/python -m pytest -q -n 0 tests/live $(PYTEST)

test-html: $(VENV)/.browser .cache/axe/node_modules/axe-core/axe.min.js ## open the report page in a real browser
	@NEED_BROWSER=1 $(BIN)/python -m pytest -q tests/html $(PYTEST)

# Readers of JUnit and a checker of requests to GitHub's API that others wrote; their versions are in tests/npm.
.cache/npm/.installed: export NODE_EXTRA_CA_CERTS ?= $(wildcard /etc/ssl/certs/ca-certificates.crt)
.cache/npm/.installed: tests/npm/packages.txt
	@npm install --silent --no-fund --no-audit --prefix .cache/npm $$(cat tests/npm/packages.txt)
	@touch $@

test-action: $(VENV)/.action .cache/npm/.installed ## run the Action with act, audit it and the workflows, ask readers that others wrote
	@$(BIN)/zizmor --offline --quiet action.yml .github examples .pre-commit-hooks.yaml
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows \
		$(wildcard .github/workflows/*.yml) $(wildcard examples/*/.github/workflows/*.yml)
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@NEED_NPM=1 $(BIN)/python -m pytest -q tests/action tests/npm $(PYTEST)

# An environment of its own: a real client brings 150 packages that slo-gate must never see.
E2E ?= .venv-e2e

$(E2E)/bin/aiperf:
	@echo "installing a real client into $(E2E)"
	@$(PYTHON) -m venv $(E2E) >/dev/null 2>&1 || { rm -rf $(E2E); $(PYTHON) -m venv --without-pip $(E2E); }
	@if $(E2E)/bin/python -m pip --version >/dev/null 2>&1; then $(E2E)/bin/python -m pip install --quiet aiperf==0.13.0; \
		else $(PYTHON) -m pip --python $(E2E)/bin/python install --quiet aiperf==0.13.0; fi

test-e2e: $(VENV)/.dev $(E2E)/bin/aiperf ## drive a real client against a streaming server, end to end
	@SLO_GATE_E2E=$(abspath $(E2E)/bin) $(BIN)/python -m pytest -q tests/e2e $(PYTEST)

# Kept between runs, some GB; SLO_GATE_CLIENTS names another folder. CLIENT=aiperf tries one alone.
CLIENTS ?= .cache/clients

$(VENV)/.clients: $(VENV)/.dev
	@$(call PIP,install --quiet -e '.[clients]')
	@touch $@

test-clients: $(VENV)/.clients ## run what recipes print with each real client against two streaming servers
	@SLO_GATE_CLIENTS=$${SLO_GATE_CLIENTS:-$(abspath $(CLIENTS))} $(BIN)/python -m pytest -q -n 0 tests/clients \
		$(if $(CLIENT),-k '$(CLIENT)') $(PYTEST)

lint: $(VENV)/.dev ## mypy --strict, ruff, spelling; the house: sizes, dead code, copies
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy
	@$(BIN)/codespell gate docs README.md schemas .github .ci Makefile
	@$(BIN)/python .ci/house.py

format: $(VENV)/.dev ## let ruff mend what it can
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

golden: $(VENV)/.dev ## rewrite golden files; look at the diff
	@$(BIN)/python -m pytest -q --update-golden $(PYTEST)
	@git --no-pager diff --stat -- tests/golden schemas

bench: $(VENV)/.study ## speed, as ratios in one run
	@$(BIN)/python benchmarks/speed.py --docs

bench-peers: $(VENV)/.study ## the same work by other programs, each in its own environment
	@$(BIN)/python benchmarks/speed.py --peers --docs

calibrate: $(VENV)/.study ## the error rates of the verdicts, measured
	@$(BIN)/python benchmarks/calibrate.py
	@$(BIN)/python benchmarks/calibrate_regression.py
	@$(BIN)/python benchmarks/calibrate_lean.py
	@$(BIN)/python benchmarks/change_points.py

compare-rivals: $(VENV)/.dev ## slo-gate beside other gates, each in its own environment: docs/comparison.md
	@$(BIN)/python benchmarks/compare_rivals.py --docs

$(VENV)/.remote: $(VENV)/.dev
	@$(call PIP,install --quiet -e '.[dev-remote]')
	@touch $@

test-remote: $(VENV)/.remote ## read and write a real S3 server (moto) on this machine, and servers that fail
	@NEED_REMOTE=1 $(BIN)/python -m pytest -q -n 0 tests/test_remote.py tests/test_remote_s3.py tests/history/test_baselines.py $(PYTEST)

$(VENV)/.columnar: $(VENV)/.dev
	@$(call PIP,install --quiet -e '.[dev-columnar]')
	@touch $@

test-columnar: $(VENV)/.columnar ## Parquet and Arrow tables, whole, broken and hostile; DuckDB and pandas on them
	@$(BIN)/python -m pytest -q -n 0 tests/test_export.py $(PYTEST)

wheel: $(VENV)/.dev ## build the wheel into dist/
	@$(BIN)/python -m pip wheel --quiet --no-deps -w dist .

clean: ## remove what make made
	rm -rf $(VENV) $(E2E) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
