# `make up` and `make test` set everything up on a fresh machine; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help

.PHONY: help up down status reload restart test check bench
help:     ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

up: .venv/ready  ## start the stack and show a translation  [MODEL=dir or hub name] [CONFIG=map]
	@$(BIN)/python -m deploy up $(if $(MODEL),--model "$(MODEL)") $(if $(CONFIG),--map "$(CONFIG)")

down: .venv/ready  ## stop the stack
	@$(BIN)/python -m deploy down

status: .venv/ready  ## show processes and languages
	@$(BIN)/python -m deploy status

reload: .venv/ready  ## take over edited nginx and gateway configuration, dropping nothing
	@$(BIN)/python -m deploy reload

restart: .venv/ready  ## start TorchServe anew with its edited configuration
	@$(BIN)/python -m deploy restart

test: .venv/ready  ## run all tests, the real stack included
	@$(BIN)/python -m pytest

check: .venv/ready  ## ruff format, ruff, mypy, architecture
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_architecture.py

bench: .venv/ready  ## measure the running stack
	@$(BIN)/python -m benchmarks stack

.venv/ready: pyproject.toml constraints.txt
	@echo 'Installing the pinned Python packages into .venv …'
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m deploy prepare
	@touch $@
