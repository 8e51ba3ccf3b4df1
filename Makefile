# What this project is worked on with. `make help` lists it.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DATABASES ?= sqlite,mariadb,postgres
PYTEST ?=
OPTIONAL ?=
DIALECT ?=

comma := ,
servers := $(filter-out sqlite,$(subst $(comma), ,$(DATABASES)))
servers_list := $(subst $(eval ) ,$(comma),$(servers))
# What lands is tested on all four, unless the command line says otherwise.
chosen = $(if $(filter file,$(origin DATABASES)),sqlite$(comma)mariadb$(comma)postgres$(comma)mysql,$(DATABASES))
sources := django_delayed_tasks harness tests testproject docs/conf.py noxfile.py
examples := docs/examples

.PHONY: help venv test check test-all lint format docs demo torture torture-cluster conformance verify matrix clean bench mutants messages pictures

help: ## Say what can be made
	@echo 'make TARGET, with TARGET one of:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 19
	@echo 'Variables: DATABASES=sqlite,mariadb,postgres,mysql  PYTEST="-k words"  PYTHON=/path/to/python'
	@echo '           DIALECT=path.of.a.Dialect  (of the tests, in place of the one of the database)'
	@echo '           CELLS="python3.14-django6.1 postgres18"  (of the matrix)'
	@echo '           TORTURE="--minutes 2 --seed 7" or "--scenario NAME" ("--list" names them)'
	@echo '           TORTURE="--databases sqlite,mariadb-latin1,postgres,mysql" ("--help" tells more)'
	@echo '           BENCH="drain lateness --databases mariadb --repeats 5" ("--help" tells more)'

venv: $(STAMP) ## Make the virtual environment .venv with everything needed

$(STAMP): pyproject.toml harness/scripts/make_venv.sh
	harness/scripts/make_venv.sh $(VENV) $(PYTHON)
	@touch $@

test: $(STAMP) ## Run the tests on DATABASES, with real servers started for the run
	$(if $(DIALECT),DDT_DIALECT="$(DIALECT)" )$(PY) -m harness.suite tests --databases "$(DATABASES)" $(PYTEST)

check: $(STAMP) ## Run what has to pass before a change lands: style, types, the model, the demo, the tests on four databases
	$(PY) -m harness.suite check --databases "$(chosen)" --optional "$(OPTIONAL)" $(PYTEST)

test-all: $(STAMP) ## Run every test on every database and every check, and say what a landing reaches on each: half an hour
	$(PY) -m harness.suite all --databases "$(chosen)" $(PYTEST)

lint: $(STAMP) ## Check style, imports, types and that no migration is missing
	$(PY) -m ruff check $(sources) $(examples)
	$(PY) -m ruff format --check $(sources) $(examples)
	$(VENV)/bin/lint-imports --no-logo --no-cache
	$(PY) -m mypy $(sources)
	$(PY) -m django makemigrations --check --dry-run --settings tests.settings

format: $(STAMP) ## Put the code into the project's style
	$(PY) -m ruff check --fix $(sources) $(examples)
	$(PY) -m ruff format $(sources) $(examples)

messages: $(STAMP) ## Bring the translations up to date with the texts of the package
	$(PY) -m harness.scripts.messages

PICTURES ?= docs/images
pictures: $(STAMP) ## Take the pictures of the admin in the documentation again, with Chromium
	$(PY) -m harness.pictures $(PICTURES)

SITE ?= build/site
docs: $(STAMP) ## Build the documentation as a site, in build/site
	$(PY) -m sphinx --quiet --fail-on-warning --keep-going -c docs . $(SITE)
	@echo "The site is in $(SITE): open $(SITE)/docs/index.html"

demo: $(STAMP) ## Run the shop with real processes and check what came out
	$(PY) -m testproject.demo

TORTURE ?=
torture: $(STAMP) ## Break executors, servers and connections at random under load, and count what is lost or doubled
	$(PY) -m harness.torture $(TORTURE)

CLUSTER ?= galera
torture-cluster: $(STAMP) ## The same on three nodes, which are killed and cut off: CLUSTER=galera|groupreplication|patroni SECONDS=150
	$(PY) -m harness.torture.clusters --cluster $(CLUSTER) $(if $(SECONDS),--seconds $(SECONDS)) $(TORTURE)

CONFORMANCE ?=
conformance: $(STAMP) ## Run the suites of Django's Tasks framework and of its backport against the backend
	$(PY) -m harness.servers --databases "$(servers_list)" -- $(PY) -m harness.conformance --databases "$(DATABASES)" $(CONFORMANCE)

verify: $(STAMP) ## Check a model of the protocol exhaustively with spin, and that it finds bugs put into it
	$(PY) -m harness.verification

BENCH ?=
bench: $(STAMP) ## Measure it against lean programs and other queues, and draw the plots
	$(PY) -m harness.benchmarks $(BENCH)

MUTANTS ?=
mutants: $(STAMP) ## Change the code in small ways and count the changes that no test notices
	$(PY) -m harness.scripts.mutation $(MUTANTS)

CELLS ?=
matrix: $(STAMP) ## Run the tests on SQLite over every Python and Django supported, and some on PostgreSQL 18
	$(if $(filter-out python3.11% python3.12% python3.13%,$(or $(CELLS),all)),-$(PY) -m harness.scripts.python_sid)
	$(PY) -m nox --envdir .matrix $(if $(CELLS),--error-on-missing-interpreters --session $(CELLS)) $(if $(PYTEST),-- $(PYTEST))

clean: ## Remove what was made
	rm -rf $(VENV) .matrix .conformance mutants build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
