# `make up` and `make test` set everything up on a fresh machine; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
BENCHMARK := $(BIN)/python -m benchmarks
FIGURES := run/figures
PYTEST := $(BIN)/python -m pytest
IN_PARALLEL := --numprocesses logical --maxprocesses 4 --dist loadfile
.DEFAULT_GOAL := help

.PHONY: help up down status reload restart monitor service quick test check bench
help:     ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

up: .venv/ready  ## start the stack and show a translation  [MODEL=dir or hub name] [CONFIG=map] [TLS=cert.pem,key.pem]
	@$(BIN)/python -m deploy up $(if $(MODEL),--model "$(MODEL)") $(if $(CONFIG),--map "$(CONFIG)") $(if $(TLS),--tls "$(TLS)")

down: .venv/ready  ## stop the stack
	@$(BIN)/python -m deploy down

status: .venv/ready  ## show processes and languages
	@$(BIN)/python -m deploy status

reload: .venv/ready  ## take over edited nginx and gateway configuration, dropping nothing
	@$(BIN)/python -m deploy reload

restart: .venv/ready  ## start TorchServe anew with its edited configuration
	@$(BIN)/python -m deploy restart

monitor: .venv/ready  ## run Prometheus beside the running stack, until Ctrl-C  [PORT=9090]
	@$(BIN)/python -m deploy monitor $(if $(PORT),--port "$(PORT)")

service: .venv/ready  ## print a systemd unit for this clone  [MODEL=dir or hub name] [CONFIG=map]
	@$(BIN)/python -m deploy unit $(if $(MODEL),--model "$(MODEL)") $(if $(CONFIG),--map "$(CONFIG)")

quick: .venv/ready  ## run the tests that need no stack, in a minute
	@$(PYTEST) -q -m 'not (e2e or chaos or slow)' $(IN_PARALLEL)

test: .venv/ready  ## run all tests, the real stack included
	@$(BIN)/python -m deploy prepare --for-tests
	@$(PYTEST) -m 'not (e2e or chaos)' $(IN_PARALLEL)
	@$(PYTEST) -m 'e2e or chaos'

check: .venv/ready  ## ruff format, ruff, mypy, architecture
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	@$(PYTEST) -q tests/test_architecture.py

bench: up  ## measure what docs/performance.md reports, about three hours; stops the running stack
	$(BENCHMARK) stack --rates 20,50,100 --clients 1,64,128 --seconds 8 --out $(FIGURES)/stack.json --plot $(FIGURES)/stack.svg
	$(BENCHMARK) fairness --rounds 1 --seconds 20 --out $(FIGURES)/fairness.json
	@$(BIN)/python -m deploy down
	$(BENCHMARK) hostile --kilobytes 1040 --out $(FIGURES)/hostile.json
	$(BENCHMARK) keys --clients 16 --seconds 6 --rounds 5 --out $(FIGURES)/keys.json
	$(BENCHMARK) overload --out $(FIGURES)/overload.json --plot $(FIGURES)/overload.svg
	$(BENCHMARK) overload --model 418M --clients 1,4,16,64 --peak-s 20 --out $(FIGURES)/overload-418M.json --plot $(FIGURES)/overload-418M.svg
	$(BENCHMARK) overload --against litserve,rayserve --limits 2000 --seconds 30 --out $(FIGURES)/overload-peers.json --plot $(FIGURES)/overload-peers.svg
	$(BENCHMARK) engine --limit-s 2 --repetitions 2 --compute-types float32,bfloat16,int8 --out $(FIGURES)/engine.json --plot $(FIGURES)/engine.svg
	$(BENCHMARK) engine --model 418M --engines ctranslate2 --limit-s 20 --repetitions 1 --batches 1,8,64 --compute-types float32,int8 --out $(FIGURES)/engine-418M.json
	$(BENCHMARK) study --out $(FIGURES)/study.json --plot $(FIGURES)/study.svg
	$(BENCHMARK) tune benchmarks/plans/phrasebook.yaml --out $(FIGURES)/tune --fresh
	$(BENCHMARK) tune benchmarks/plans/detection.yaml --out $(FIGURES)/tune-detection --fresh
	$(BENCHMARK) microbatching --clients 64,128 --rounds 2 --seconds 12 --out $(FIGURES)/microbatching.json
	$(BENCHMARK) microbatching --side 160 --clients 128 --rounds 1 --seconds 15 --bound-mb 60 --out $(FIGURES)/microbatching-bounded.json
	@$(BIN)/python -m deploy up --map torchserve_backend/all_tasks.json
	$(BENCHMARK) captioning --rounds 2 --out $(FIGURES)/captioning.json
	$(BENCHMARK) captioning --sizes 1920x1080 --modes stream-prebatch --apart --rounds 3 --out $(FIGURES)/captioning-apart.json
	@$(BIN)/python -m deploy down
	$(BENCHMARK) compare --against baseline --languages fr --clients 1,16,64,256 --rounds 2 --seconds 8 --out $(FIGURES)/baseline.json
	$(BENCHMARK) compare --against baseline --model 418M --languages fr --tokens 20-20 --clients 64 --rounds 2 --seconds 40 --warm-s 1 --out $(FIGURES)/baseline-418M.json
	$(BENCHMARK) compare --against engine --model 418M --languages fr --tokens 20-20 --clients 64 --rounds 2 --seconds 30 --out $(FIGURES)/engine-stack-418M.json
	$(BENCHMARK) compare --against engine --languages fr --clients 64,256 --rounds 2 --seconds 10 --out $(FIGURES)/engine-phrasebook.json
	$(BENCHMARK) compare --against thread --languages fr --clients 64,256 --rounds 2 --seconds 12 --out $(FIGURES)/thread.json
	$(BENCHMARK) compare --against window,litserve,rayserve,flask,baseline --languages fr --clients 1,16,64,256 --rounds 2 --seconds 6 --out $(FIGURES)/peers.json
	$(BENCHMARK) compare --against torchserve --languages fr --clients 1 --rounds 3 --seconds 12 --out $(FIGURES)/torchserve.json
	$(BENCHMARK) compare --against packing --languages fr --clients 64,128 --rounds 3 --out $(FIGURES)/packing.json
	$(BENCHMARK) compare --against placement --clients 64 --rounds 3 --out $(FIGURES)/placement.json
	$(BENCHMARK) compare --against placement --model 418M --tokens 20-20 --clients 64 --rounds 1 --seconds 40 --out $(FIGURES)/placement-418M.json

.venv/ready: pyproject.toml constraints.txt
	@echo 'Installing the pinned Python packages into .venv …'
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m deploy prepare
	@touch $@
