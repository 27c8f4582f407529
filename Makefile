# make run    the demo: a private table behind a server, priced, charged, answered
# make test   lint, types, layers, tests: of what takes long a fixed part
# make bench  speed and error, as ratios measured in one run
# make soak   what takes too long for every change: all of it, and 30,000 batches on degenerate rows
# make measures  how far a question walks through the code, and how the code is cut
# make lint   style, types and layers only
# make wheel  what pip installs, in dist/
# make evidence  docs/evidence: what others wrote, run on this; needs an index
# make docs   the documentation as a site, in site/
.PHONY: run test soak bench measures lint wheel docs evidence setup java chromium tools clients axe clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
AXE := 4.14.0
SHIM := 1.0.4
MATERIAL := 9.8.1

run: $(READY)
	@$(BIN)/sulq demo

# Where an image keeps no bytecode, each process that the tests start would compile everything anew.
test soak: export PYTHONDONTWRITEBYTECODE :=

# In a new clone the tests are compiled once for all workers, beside the types.
test: $(READY) java chromium tools axe
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only >/dev/null 2>&1 & \
	echo $(BIN)/mypy; $(BIN)/mypy; found=$$?; wait; exit $$found
	$(BIN)/python -m pytest -n 3 --dist worksteal

soak: $(READY) java tools clients
	$(BIN)/python tests/attacks/degenerate.py --batches 30000
	$(BIN)/python tests/attacks/degenerate.py --batches 500 --places spark
	SULQ_SOAK=1 $(BIN)/python -m pytest --timeout 900 $$(grep -rl --include='test_*.py' '^from soak import' tests)

bench: $(READY) java
	$(BIN)/python -m pip install --quiet --disable-pip-version-check diffprivlib==0.6.6
	$(BIN)/python -m benchmarks

measures: $(READY)
	$(BIN)/python tools/measures.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheel: $(READY)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

evidence: $(READY)
	$(BIN)/python -m benchmarks.evidence

# Without npm the site is searched over HTTP only, not when it is opened from a disk.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check mkdocs-material==$(MATERIAL)
	@test -d $(VENV)/iframe-worker-$(SHIM) || ! command -v npm >/dev/null || \
	npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix $(VENV)/iframe-worker-$(SHIM) iframe-worker@$(SHIM) >/dev/null || true
	$(BIN)/python docs/make_site.py

setup: $(READY)

# What the tests want of the system. Without it, and without the right to install it, they are
# skipped, or fail where CI=true: Java for Spark, a browser for the console, faults, certificates, psql.
apt = if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null; fi || true

java:
	@test -n "$$JAVA_HOME" || command -v java >/dev/null || $(call apt,openjdk-17-jre-headless)

chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	command -v google-chrome >/dev/null || $(call apt,chromium fonts-dejavu-core)

tools:
	@{ command -v strace && command -v openssl && command -v psql; } >/dev/null || \
	$(call apt,strace openssl postgresql-client)

# A program in an environment of its own: what these need conflicts.
own = test -x $(VENV)/$(1)/bin/$(2) || { $(PYTHON) -m venv $(VENV)/$(1) && \
	$(VENV)/$(1)/bin/pip install --quiet --disable-pip-version-check $(3); }

# Clients of PostgreSQL's protocol that only `make soak` tries: JDBC, ODBC, R, pgcli, dbt, Superset,
# and sqlsmith, which writes random statements.
clients: $(READY)
	@{ command -v isql && command -v sqlsmith && command -v Rscript && \
	test -f /usr/share/java/postgresql.jar; } >/dev/null || \
	$(call apt,default-jdk-headless libpostgresql-jdbc-java odbc-postgresql unixodbc r-cran-rpostgresql sqlsmith)
	@$(call own,clients,pgcli,pgcli==4.7.1)
	@$(call own,dbt,dbt,dbt-core==1.9.11 dbt-postgres==1.9.1)
	@$(call own,superset,superset,apache-superset==6.1.0 flask-caching==2.3.1 cachetools psycopg2-binary)

# axe-core checks that pages can be used by everyone. Without npm that check is skipped.
axe: $(READY)
	@test -f $(VENV)/axe-$(AXE)/node_modules/axe-core/axe.min.js || ! command -v npm >/dev/null || \
	npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix $(VENV)/axe-$(AXE) axe-core@$(AXE) >/dev/null || true

# Installs once, and again when what is needed changes.
$(READY): pyproject.toml requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sulq needs Python 3.11 or newer; try make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(READY)

clean:
	rm -rf $(VENV) .demo .bench .site site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
