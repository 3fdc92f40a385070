# Each target makes the environment that it needs, in .venvs/, from nothing but Python 3.11 or newer and make.
#
#   make demo     train, evaluate and use a small classifier of handwritten digits from the command line
#   make demo-cluster   the same over a parameter server and two workers, as processes of this machine; TLS=1 under TLS
#   make test     the whole test suite            make lint      ruff, mypy, the floors
#   make test-everywhere   demo and a part of the tests from places that are no developer's; PLACES='load one-core', WHOLE=1
#   make test-numpy   what oneDNN has a part in, with NumPy alone
#   make docs     the documentation, in site/      make bench     benchmarks
#   make browsers   timelines in Perfetto, event files in TensorBoard, both in headless Chromium
#   make docs-shots   pictures of its pages, light and dark, checked for what is cut off; needs Chromium
#   make examples   the programs of docs/examples on each Python found, servers and notebook among them
#   make generate   the files that are made from the tree: indexes, docs/ops.md, the list of packages
#   make nightly  the suite with many more random examples, the long tests, and 1,000 simulated clusters; SEEDS=0:50
#   make fuzz     damaged graphs, op calls, records, checkpoints, images, frames, requests; SEEDS=0:1000 KIND=calls
#   make mutants  break one room at drawn places and see which breaks a test notices; ROOM=transport SEED=1, or ALL=1
#   make limits   memory, deadline and the host's turn while graphs ask for too much; on an idle machine
#   make soak     100,000 steps over a cluster, some cancelled: memory, descriptors, threads, garbage; ARGS='--seed 2 --tls'
#   make faults   kill and stop tasks and clients of training runs at 240 random moments; ARGS='--seed 1'
#
# Another interpreter: make test PYTHON=python3.13. What pip is told to do (index, proxies) is left to pip's own settings.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The first interpreter on the path that is new enough.
PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$each"; break; }; done)
VERSION := $(shell $(if $(PYTHON),"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11)) if sys.version_info < (3, 11) else print("%d.%d" % sys.version_info[:2])' 2>/dev/null))

DEMO := .venvs/demo-$(VERSION)
TEST := .venvs/test-$(VERSION)
DOCS := .venvs/docs-$(VERSION)
SHOTS := .venvs/shots-$(VERSION)
EXAMPLES := .venvs/examples-$(VERSION)
MUTANTS := .venvs/mutants-$(VERSION)
BROWSERS := .venvs/browsers-$(VERSION)
# What make nightly leaves: the commit, what the tests and the simulated clusters came to, and when.
NIGHTLY := .venvs/nightly.txt

# Every other interpreter that is new enough, for make examples.
OTHERS = $(shell for each in 3.11 3.12 3.13 3.14; do test "$$each" = "$(VERSION)" || \
	for python in "python$$each" "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/"$$each".*/bin/python; do \
	"$$python" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$$each')" >/dev/null 2>&1 && { echo "$$python"; break; }; done; done; true)

# Arguments for pytest: make test ARGS='tests/core -x'
ARGS ?=
# How many processes the whole suite runs in.
WORKERS ?= 2
# Threads of NumPy's products that find no free core spin: beside another process, figure 1 takes ten times as long.
BESIDE_EACH_OTHER := OPENBLAS_NUM_THREADS=1
# Simulated clusters of make nightly, damaged inputs of make fuzz: how many, or from:to.
SEEDS ?= 1000
# Places of make test-everywhere, all if none is named; WHOLE=1 runs the whole suite in three of them.
PLACES ?=
WHOLE ?=
# A Python that has TensorFlow, for make bench to run the same graphs in both: make bench TENSORFLOW=/path/to/python
TENSORFLOW ?=

# A machine may tell Python to write no bytecode: then each of thousands of processes would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# For .ci/run.
.PHONY: environment print-test-python
environment: $(TEST)/ready
print-test-python:
	@echo "$(TEST)/bin/python"

.PHONY: help demo demo-cluster test test-everywhere test-numpy lint generate docs docs-shots examples examples-servers browsers bench nightly faults limits soak fuzz mutants clean
help:
	@sed -n 's/^#   //p' Makefile

# What draws the pages and their pictures reads the package's source, and needs nothing of it installed.
$(DOCS)/ready $(SHOTS)/ready: pyproject.toml
	@test -n "$(VERSION)" || { echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; exit 2; }
	@echo "making $(@D)" >&2
	@"$(PYTHON)" -m venv "$(@D)"
	@"$(PYTHON)" -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")' \
		$(patsubst .venvs/%-$(VERSION),%,$(@D)) >"$(@D)/requirements.txt"
	@"$(@D)/bin/python" -m pip install --quiet --no-compile --requirement "$(@D)/requirements.txt"
	@touch "$@"

# The stamp is written last, so an interrupted installation is done again.
.venvs/%/ready: pyproject.toml
	@test -n "$(VERSION)" || { echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; exit 2; }
	@echo "making $(@D)" >&2
	@"$(PYTHON)" -m venv "$(@D)"
	@case "$*" in demo-*) extras=image,tls; fast=fast,;; test-*) extras=image,snappy,tables,test,text,tls; fast=fast,;; mutants-*) extras=image,snappy,test,tls,mutants; fast=fast,;; browsers-*) extras=image,test,browsers; fast=fast,;; examples-*) extras=examples; fast=; compile=--no-compile;; esac; \
	"$(@D)/bin/python" -m pip install --quiet $${compile:-} --editable ".[$$fast$$extras]" || \
	{ echo "without oneDNN, which this package index does not have" >&2; \
	"$(@D)/bin/python" -m pip install --quiet --editable ".[$$extras]"; }
	@# As pip does with a wheel: where Python may write no bytecode, each start would compile everything anew.
	@"$(@D)/bin/python" -m compileall -q flowengine kernels transport
	@touch "$@"

demo: $(DEMO)/ready
	@PATH="$(CURDIR)/$(DEMO)/bin:$$PATH" bash tests/data/digits/demo.sh

demo-cluster: $(DEMO)/ready
	@PATH="$(CURDIR)/$(DEMO)/bin:$$PATH" bash tests/data/digits/demo_cluster.sh $(if $(TLS),--tls)

# The whole suite in two processes, a file in one of them, the slow ones first; a part, which ARGS names, in this one.
test: $(TEST)/ready
	$(if $(ARGS),,$(BESIDE_EACH_OTHER)) $(TEST)/bin/python -m pytest $(or $(ARGS),-n $(WORKERS) --dist loadfile --no-loadscope-reorder)

# From a read-only checkout, as an ordinary user, without a home, ...: .ci/everywhere has the list.
test-everywhere:
	WHOLE="$(WHOLE)" PYTHON="$(PYTHON)" bash .ci/everywhere $(PLACES)

# What computes with oneDNN's kernels where they are there, with NumPy alone: see docs/testing.md.
test-numpy: $(TEST)/ready
	$(BESIDE_EACH_OTHER) FLOWENGINE_KERNEL_PROVIDER=numpy $(TEST)/bin/python -m pytest -q -m provided tests/oprecords/test_records.py \
		tests/kernels tests/conformance/test_corpus.py tests/conformance/test_recorded.py \
		tests/client/test_layers.py tests/gradients/test_layers.py

lint: $(TEST)/ready
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy
	$(TEST)/bin/lint-imports

generate: $(TEST)/ready
	$(TEST)/bin/python -m tests.generate

# The variable keeps a notice about another tool out of the output.
docs: $(DOCS)/ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet --config-file .mkdocs.yml

docs-shots: docs $(SHOTS)/ready
	$(SHOTS)/bin/python -m tests.docs.shots $(ARGS)

# The transcripts of README and tutorials, here and on the other interpreters; then what needs more than the package.
examples: $(TEST)/ready examples-servers
	$(TEST)/bin/python -m pytest -q tests/docs/test_transcripts.py
	@for each in $(OTHERS); do echo "== $$each"; \
	$(MAKE) --no-print-directory test PYTHON="$$each" ARGS='-q tests/docs/test_transcripts.py'; done

examples-servers: $(EXAMPLES)/ready
	$(EXAMPLES)/bin/python -m pytest -q -rs tests/docs/test_servers.py tests/docs/test_notebook.py \
		tests/docs/test_deployment.py tests/docs/test_transcripts.py -k 'servers or notebook or deployment or starlette or quart'
	$(EXAMPLES)/bin/python -m pytest -q -rs tests/serving/test_servers.py tests/serving/test_openapi.py \
		tests/serving/v2/test_tritonclient.py
	$(EXAMPLES)/bin/pyright --project pyproject.toml --pythonpath $(EXAMPLES)/bin/python

browsers: $(BROWSERS)/ready
	$(BROWSERS)/bin/python -m pytest -q -rs tests/browsers

bench: $(TEST)/ready
	$(TEST)/bin/python -m tests.benchmarks $(if $(TENSORFLOW),--tensorflow "$(TENSORFLOW)") $(ARGS)

nightly: $(TEST)/ready
	@git log -1 --format='commit %H of %cI' >$(NIGHTLY); \
	git diff --quiet HEAD || echo "with changes that are not committed" >>$(NIGHTLY); \
	echo "begun $$(date --utc +%FT%TZ)" >>$(NIGHTLY)
	@status=0; \
	FLOWENGINE_TEST_PROFILE=nightly $(TEST)/bin/python -m pytest $(ARGS) 2>&1 | tee .venvs/nightly.log || status=$$?; \
	grep -E '^(conformance cases that ran|not run|FAILED|ERROR|.*[0-9]+ (passed|failed|skipped|deselected|errors?) ?.* in [0-9.]+)' .venvs/nightly.log >>$(NIGHTLY) || true; \
	drawn=0; \
	$(MAKE) --no-print-directory browsers 2>&1 | tee .venvs/nightly.log || drawn=$$?; \
	tail -n 1 .venvs/nightly.log >>$(NIGHTLY); \
	played=0; \
	$(TEST)/bin/python -m tests.tools.scenarios --seeds $(SEEDS) 2>&1 | tee .venvs/nightly.log || played=$$?; \
	tail -n 1 .venvs/nightly.log >>$(NIGHTLY); \
	echo "tests $$status, browsers $$drawn, simulated clusters $$played, ended $$(date --utc +%FT%TZ)" >>$(NIGHTLY); \
	cat $(NIGHTLY); exit $$((status || drawn || played))

faults: $(TEST)/ready
	$(TEST)/bin/python -m tests.faults.killing $(ARGS)

soak: $(TEST)/ready
	$(TEST)/bin/python -m tests.soak $(ARGS)

limits: $(TEST)/ready
	$(TEST)/bin/python -m tests.limits $(ARGS)

# Op calls begin with the samples of the ops' records.
fuzz: $(TEST)/ready
	$(TEST)/bin/python -m tests.testing.fuzz.bases .fuzz/bases
	@for kind in $(or $(KIND),graphs calls records checkpoints images frames requests); do \
	$(TEST)/bin/python -m tests.tools.fuzz --kind $$kind --seeds $(if $(findstring :,$(SEEDS)),$(SEEDS),0:$(SEEDS)) --folder .fuzz \
	$$(test $$kind = calls && echo --bases .fuzz/bases) $(ARGS) || failed=1; done; test -z "$$failed"

mutants: $(MUTANTS)/ready
	$(MUTANTS)/bin/python -m tests.mutants --room $(ROOM) --seed $(or $(SEED),1) $(if $(ALL),--all) $(ARGS)

clean:
	rm -rf .venvs .mutants .fuzz site .demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
