.PHONY: help run test chaos bench lint lock
.DEFAULT_GOAL := help
PYTHON = .venv/bin/python
COMPILE = .venv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /\1 - /p' Makefile

run: ## start the portal; everything it needs is set up first
	@scripts/setup run
	@exec $(PYTHON) manage.py up

test: ## the gate: lint, all rules, each real part once (ARGS=all: every test); what the machine lacks is skipped
	@scripts/setup test
	@exec $(PYTHON) -m tests.lanes $(ARGS)

chaos: ## random jobs on three Docker nodes while everything is broken (ARGS="--jobs 300 --faults 60 --seed 7 --database postgres")
	@scripts/setup test
	@exec $(PYTHON) -m tests.chaos $(ARGS)

bench: ## measure, and print the figures as ratios taken in one run
	@scripts/setup test
	@$(PYTHON) -m benchmarks $(ARGS)

lint: ## ruff, mypy, hadolint, djade and djangofmt
	@scripts/setup test
	@scripts/lint

lock: ## pin requirements/*.txt again from pyproject.toml (add ARGS=--upgrade for newer versions)
	@scripts/setup test
	@$(COMPILE) $(ARGS) pyproject.toml -o requirements/run.txt
	@$(COMPILE) $(ARGS) pyproject.toml --group dev -o requirements/dev.txt
	@echo ldap3 | $(COMPILE) $(ARGS) - -c requirements/dev.txt -o requirements/ldap.txt
	@$(COMPILE) $(ARGS) requirements/tools.in -o requirements/tools.txt
	@$(COMPILE) $(ARGS) requirements/clients.in -o requirements/clients.txt
