# `make up` and `make test` set everything up on a fresh machine; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
BENCHMARK := $(BIN)/python -m benchmarks
FIGURES := run/figures
FAILED := $(FIGURES)/failed
# Continue with the other measurements after a failure.
GO_ON := || touch $(FAILED)
PYTEST := $(BIN)/python -m pytest
# pytest-xdist workers run whole files, each with its own stacks. Tests without a stack spend a
# quarter of their time waiting, so they get one worker more than the two cores.
IN_PARALLEL := --dist loadfile --no-loadscope-reorder --numprocesses
# Folders whose tests are all deselected; importing them takes seconds in each worker.
WITHOUT_STACKS := $(IN_PARALLEL) 3 --ignore tests/e2e --ignore tests/chaos --ignore tests/cluster
# .ci/run leaves the Hypothesis tests to `make test-faults`, which draws more examples.
ELSEWHERE := e2e or faults or kubectl$(if $(CI), or hypothesis)
.DEFAULT_GOAL := help
# Without bytecode, every program would compile our modules at startup, and pytest its tests. If
# warnings are errors, setuptools and supervisord fail.
unexport PYTHONDONTWRITEBYTECODE PYTHONWARNINGS

.PHONY: help up join down status reload restart monitor service image quick test test-faults check programs bench
help:     ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# Extras for a cluster and for features enabled in the gateway's environment.
EXTRAS = $(if $(HEAD)$(filter ray,$(BACKEND)),cluster) $(filter lingua,$(BABELGATE_IDENTIFIER)) $(if $(BABELGATE_LIMITS_URL)$(BABELGATE_CACHE_URL),redis) $(if $(OTEL_EXPORTER_OTLP_ENDPOINT),otel)
# Those added earlier get their new versions after an upgrade: the stack remembers its options.
READY = $(sort .venv/ready $(wildcard .venv/ready-*) $(patsubst %,.venv/ready-%,$(EXTRAS)))
MODELS = $(if $(MODEL),--model "$(MODEL)") $(if $(CONFIG),--map "$(CONFIG)") $(if $(ADDRESS),--address "$(ADDRESS)")
# Whether an option is given, and not as `no` or `0`.
YES = $(filter-out no 0,$($(1)))
OPTIONS = $(MODELS) $(if $(TLS),--tls "$(TLS)") $(if $(BACKEND),--backend "$(BACKEND)")

up: $(READY)  ## start the stack and show a translation  [MODEL=dir or hub name] [CONFIG=map] [BUNDLE=file] [TLS=cert.pem,key.pem] [BACKEND=ray] [ADDRESS=ip]
	@$(BIN)/python -m deploy up $(OPTIONS) $(if $(BUNDLE),--bundle "$(BUNDLE)")

join: $(READY)  ## add this machine to a Ray cluster  HEAD=ip [ADDRESS=ip] [GATEWAY=yes, with MODEL= and CONFIG= of the head]
	@$(BIN)/python -m deploy join --head "$(HEAD)" $(MODELS) $(if $(call YES,GATEWAY),--gateway)

down: .venv/ready  ## stop the stack  [FORGET=yes: the next start uses the defaults]
	@$(BIN)/python -m deploy down $(if $(call YES,FORGET),--forget)

status: .venv/ready  ## show processes and languages
	@$(BIN)/python -m deploy status

reload: .venv/ready  ## apply edited nginx and gateway configuration without dropping a request
	@$(BIN)/python -m deploy reload

restart: .venv/ready  ## restart TorchServe with its edited configuration, or this machine's Ray
	@$(BIN)/python -m deploy restart

monitor: .venv/ready  ## run Prometheus next to the running stack until Ctrl-C  [PORT=9090]
	@$(BIN)/python -m deploy monitor $(if $(PORT),--port "$(PORT)")

service: $(READY)  ## print a systemd unit for this clone  [options of up or join]
	@$(BIN)/python -m deploy unit $(OPTIONS) $(if $(HEAD),--head "$(HEAD)") $(if $(call YES,GATEWAY),--gateway)

image: .venv/ready-dev  ## build the container image with buildah and get a translation from it  [FRESH=1]
	@$(BIN)/python -m deploy image $(if $(call YES,FRESH),--fresh)
	@$(PYTEST) -q -m 'image or kubectl' tests/e2e/test_image.py tests/deploy/test_kubernetes.py

quick: .venv/ready-dev  ## run the tests that need no stack, in a minute
	@OMP_NUM_THREADS=1 $(PYTEST) -q -m 'not (e2e or faults or slow or kubectl)' $(WITHOUT_STACKS)

test: .venv/ready-dev programs  ## run the tests, including each feature on the real stack, in 12 minutes on two cores
	@OMP_NUM_THREADS=1 $(PYTEST) -m 'not ($(ELSEWHERE))' $(WITHOUT_STACKS) --ignore tests/test_architecture.py
	@$(PYTEST) -m 'e2e and not faults' $(IN_PARALLEL) 2 tests/e2e

test-faults: .venv/ready-dev programs  ## run the tests of chaos, kills, hostile documents, a Ray cluster of three machines, bulk work on Ray and the image
	@$(PYTEST) -m 'faults or (hypothesis and not kubectl)' --hypothesis-profile=thorough $(IN_PARALLEL) 2

# Install the Debian packages that the tests need.
programs: .venv/ready
	@$(BIN)/python -m deploy prepare --for-tests

check: .venv/ready-dev  ## ruff format, ruff, mypy, architecture
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	@$(PYTEST) -q tests/test_architecture.py

bench: .venv/ready-dev up  ## measure the figures of docs/performance.md in less than 90 minutes; stops the running stack
	@mkdir -p $(FIGURES) && rm -f $(FAILED)
	$(BENCHMARK) stack --rates 20,50,100 --clients 1,64,128 --seconds 8 --out $(FIGURES)/stack.json --plot $(FIGURES)/stack.svg $(GO_ON)
	$(BENCHMARK) fairness --rounds 1 --seconds 20 --out $(FIGURES)/fairness.json $(GO_ON)
	@$(BIN)/python -m deploy down $(GO_ON)
	$(BENCHMARK) dialects --clients 16 --seconds 3 --rounds 10 --out $(FIGURES)/dialects.json $(GO_ON)
	$(BENCHMARK) keys --clients 16 --seconds 6 --rounds 5 --out $(FIGURES)/keys.json $(GO_ON)
	$(BENCHMARK) overload --seconds 30 --clients 64,128 --out $(FIGURES)/overload.json --plot $(FIGURES)/overload.svg $(GO_ON)
	$(BENCHMARK) overload --model 418M --limits 30000 --loads 1,10 --seconds 40 --clients 16,64 --peak-s 15 --out $(FIGURES)/overload-418M.json --plot $(FIGURES)/overload-418M.svg $(GO_ON)
	$(BENCHMARK) overload --against litserve,rayserve --limits 2000 --loads 1,4 --seconds 20 --clients 64,128 --out $(FIGURES)/overload-peers.json --plot $(FIGURES)/overload-peers.svg $(GO_ON)
	$(BENCHMARK) study --model 418M --limit-s 20 --repetitions 1 --batches 1,8,64 --out $(FIGURES)/study-418M.json $(GO_ON)
	$(BENCHMARK) study --limit-s 5 --out $(FIGURES)/study.json --plot $(FIGURES)/study.svg $(GO_ON)
	$(BENCHMARK) tune benchmarks/plans/phrasebook.yaml --out $(FIGURES)/tune --fresh $(GO_ON)
	$(BENCHMARK) tune benchmarks/plans/detection.yaml --out $(FIGURES)/tune-detection --fresh $(GO_ON)
	$(BENCHMARK) compare --against interactive,embedded,litserve,rayserve,flask,baseline --languages fr --clients 1,16,64,256 --rounds 2 --seconds 6 --warm-s 3 --out $(FIGURES)/peers.json $(GO_ON)
	$(BENCHMARK) compare --against embedded,litserve,rayserve,flask --set max_batch_delay=5 --languages fr --clients 1,16,64,256 --rounds 2 --seconds 6 --warm-s 3 --out $(FIGURES)/peers-5ms.json $(GO_ON)
	$(BENCHMARK) compare --against embedded,litserve,rayserve,flask --set max_batch_delay=5 --set vocabulary=language --languages fr --clients 1,64,256 --rounds 2 --seconds 6 --warm-s 3 --out $(FIGURES)/peers-vocabulary.json $(GO_ON)
	$(BENCHMARK) compare --against embedded,litserve,rayserve,flask --model 418M --languages fr --tokens 20-20 --clients 64 --rounds 1 --seconds 30 --warm-s 1 --out $(FIGURES)/peers-418M.json $(GO_ON)
	$(BENCHMARK) compare --against baseline,engine --model 418M --set vocabulary=language --languages fr --tokens 20-20 --clients 64 --rounds 2 --seconds 25 --warm-s 1 --out $(FIGURES)/baseline-418M.json $(GO_ON)
	$(BENCHMARK) compare --against vocabulary --model 418M --languages fr --tokens 20-20 --clients 64 --rounds 2 --seconds 25 --warm-s 1 --out $(FIGURES)/vocabulary-fr.json $(GO_ON)
	$(BENCHMARK) compare --against vocabulary --model 418M --languages ja --tokens 20-20 --clients 64 --rounds 2 --seconds 25 --warm-s 1 --out $(FIGURES)/vocabulary-ja.json $(GO_ON)
	$(BENCHMARK) compare --against engine,thread --languages fr --clients 64,256 --rounds 2 --seconds 10 --out $(FIGURES)/engine-stack.json $(GO_ON)
	$(BENCHMARK) compare --against sentence,torchserve --set placement=device --set max_batch_delay=2 --languages fr --clients 1 --rounds 2 --seconds 10 --out $(FIGURES)/one-client.json $(GO_ON)
	$(BENCHMARK) compare --against packing --tokens 3-200 --languages fr --clients 64 --rounds 2 --seconds 10 --out $(FIGURES)/packing.json $(GO_ON)
	$(BENCHMARK) compare --against placement --clients 64 --rounds 2 --seconds 10 --out $(FIGURES)/placement.json $(GO_ON)
	$(BENCHMARK) compare --against placement --model 418M --tokens 20-20 --clients 64 --rounds 1 --seconds 20 --out $(FIGURES)/placement-418M.json $(GO_ON)
	@! test -e $(FAILED) || { echo 'Not all could be measured; the errors are above.'; exit 1; }

PIP_INSTALL = $(BIN)/pip install -qq --no-user --disable-pip-version-check --no-compile --constraint constraints.txt
# pip refuses a file with another hash. PyTorch and CUDA's libraries have none, because each index
# has its own builds.
HASHES = --no-require-hashes --constraint hashes.txt
# pip would compile files one by one, including every test and model architecture. Files for a
# newer Python fail to compile.
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x '/(tests?|transformers/models)/' .venv/lib || true
install = $(PIP_INSTALL) $(HASHES) --no-build-isolation --editable '.$(1)' && { $(COMPILE); }

.venv/ready: pyproject.toml constraints.txt
	@echo 'Installing the pinned Python packages into .venv …'
	@$(PYTHON) -m venv .venv
	@sed -n '/^pip==/,/[^\\]$$/p' hashes.txt | $(PIP_INSTALL) --requirement /dev/stdin
	@$(PIP_INSTALL) $(HASHES) --upgrade setuptools
	@$(call install,[stack])
	@touch $@

# Another extra of pyproject.toml.
.venv/ready-%: .venv/ready
	@echo 'Adding the Python packages for "$*" to .venv …'
	@$(call install,[$*])
	@touch $@

# The packages of an index have new hashes if their versions change.
hashes.txt: constraints.txt
	@echo 'Asking the package index for the hashes of `constraints.txt` …'
	@$(PIP_INSTALL) uv
	@$(BIN)/uv pip compile --quiet --no-deps --no-header --no-annotate --universal --python-version 3.11 --generate-hashes --no-emit-package torch --output-file $@ constraints.txt
