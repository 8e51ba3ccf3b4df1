# What this project is worked on with. `make help` lists it.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DATABASES ?= sqlite,mariadb,postgres
PYTEST ?=

comma := ,
servers := $(filter-out sqlite,$(subst $(comma), ,$(DATABASES)))
servers_list := $(subst $(eval ) ,$(comma),$(servers))
sources := django_delayed_tasks tests testproject scripts benchmarks verification

.PHONY: help venv test lint format demo torture torture-galera verify matrix clean bench mutants

help: ## Say what can be made
	@echo 'make TARGET, with TARGET one of:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
	@echo 'Variables: DATABASES=sqlite,mariadb,postgres,mysql  PYTEST="-k words"  PYTHON=/path/to/python'
	@echo '           TORTURE="--minutes 2 --seed 7" or "--scenario NAME" ("--list" names them)'
	@echo '           TORTURE="--databases sqlite,mariadb-latin1,postgres,mysql" ("--help" tells more)'
	@echo '           BENCH="drain lateness --databases mariadb --repeats 5" ("--help" tells more)'

venv: $(STAMP) ## Make the virtual environment .venv with everything needed

$(STAMP): pyproject.toml scripts/make_venv.sh
	scripts/make_venv.sh $(VENV) $(PYTHON)
	@touch $@

test: $(STAMP) ## Run the tests on DATABASES, with real servers started for the run
	$(PY) -m tests.servers --databases "$(servers_list)" -- $(PY) -m scripts.run_suite "$(DATABASES)" $(PYTEST)

lint: $(STAMP) ## Check style, types and that no migration is missing
	$(PY) -m ruff check $(sources)
	$(PY) -m ruff format --check $(sources)
	$(PY) -m mypy $(sources)
	$(PY) -m django makemigrations --check --dry-run --settings tests.settings

format: $(STAMP) ## Put the code into the project's style
	$(PY) -m ruff check --fix $(sources)
	$(PY) -m ruff format $(sources)

demo: $(STAMP) ## Run the shop with real processes and check what came out
	$(PY) -m testproject.demo

TORTURE ?=
torture: $(STAMP) ## Break executors, servers and connections at random under load, and count what is lost or doubled
	$(PY) -m tests.torture $(TORTURE)

torture-galera: $(STAMP) ## The same on a cluster of three MariaDB Galera nodes
	$(PY) -m tests.torture.galera $(TORTURE)

verify: $(STAMP) ## Check a model of the protocol exhaustively with spin, and that it finds bugs put into it
	$(PY) -m verification

BENCH ?=
bench: $(STAMP) ## Measure it beside lean programs and other queues, and draw the plots
	$(PY) -m benchmarks $(BENCH)

MUTANTS ?=
mutants: $(STAMP) ## Change the code in small ways and count the changes that no test notices
	$(PY) -m scripts.mutation $(MUTANTS)

matrix: $(STAMP) ## Run the tests on SQLite over every Python found and every Django supported
	$(PY) -m scripts.matrix $(PYTEST)

clean: ## Remove what was made
	rm -rf $(VENV) .matrix mutants build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
