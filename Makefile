# `make demo` and `make test` do all the set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A folder with copies of the data sets; empty: downloaded once into ~/.cache/epsilens.
DATA ?=

.DEFAULT_GOAL := help
.PHONY: help demo federation test test-nightly test-oldest test-newest golden package style check format clean data docs bench-docs peers

help:
	@echo "make demo    set up, run the whole story on bundled data, write demo/report.html"
	@echo "make federation   a coordinator and five sites as real processes: the whole story, taken down again"
	@echo "make test    set up what the tests need and run them"
	@echo "make test-nightly   the long ones that it leaves out"
	@echo "make test-oldest, make test-newest   with the oldest and the newest packages that are allowed"
	@echo "make golden [ARGS=--write]   how outputs differ from the stored ones of tests/golden; --write stores them"
	@echo "make package   dist/: wheel and source, installed into an empty environment and tried there"
	@echo "make check   ruff, mypy --strict, and the tests"
	@echo "make docs    set up, build the documentation: docs/_build/html/index.html"
	@echo "make data    download the papers' data sets"
	@echo "make bench-whatif-adult [DATA=DIR] [ARGS=--quick]   one benchmark of benchmarks/"
	@echo "make bench-docs   docs/benchmarks.md, docs/scale.md, the reproduction book and their figures, from benchmarks/results"
	@echo "make peers   environments of their own for the libraries we compare with"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# Torch first and by its version, so that the extra finds it and asks for no other build of it.
TORCH := torch==2.13.0
DEV := --quiet --editable '.[dev,docs,torch,federated,cluster,explain,secure,trees,synthetic,boosted,excel,stats]'

# uv takes a minute where pip takes three, but it does not know where pip was told to look.
$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet uv $(TORCH)
	$(BIN)/uv pip install --python $(BIN)/python --compile-bytecode $(DEV) || $(BIN)/python -m pip install $(DEV)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs

$(VENV)/.browser:
	./tests/page/install-browser
	@mkdir -p $(VENV) && touch $@

demo: $(VENV)/.installed
	$(BIN)/epsilens demo --out demo

$(VENV)/.installed-federated: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[federated]'
	@touch $@ $(VENV)/.installed

federation: $(VENV)/.installed-federated
	$(BIN)/python examples/federation.py

# Or every process that a test starts would compile the package again.
test test-nightly: export PYTHONDONTWRITEBYTECODE =
# Three workers on two cores: one computes while another waits for a browser or a process. Threads of linear
# algebra would only wait for each other.
test test-nightly: export OPENBLAS_NUM_THREADS = 1
test test-nightly: export OMP_NUM_THREADS = 1

test: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m 'not nightly'

test-nightly: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m nightly

golden: $(VENV)/.installed-dev
	$(BIN)/python tests/golden/regenerate.py $(ARGS)

# What is tested is what is in dist/ afterwards.
package: $(VENV)/.installed-dev $(VENV)/.browser
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	EPSILENS_DIST=$(CURDIR)/dist $(BIN)/python -m pytest tests/package/test_wheel.py

# The two ends of what pyproject.toml allows, each in an environment of its own. Flower is in neither: it
# holds what it shares with us within narrow bounds, and `make test` runs with it.
ENDS_WITH := '.[dev,torch,cluster,explain,secure,excel,stats]'
ENDS_RUN := -m 'not nightly' --ignore tests/page --ignore tests/docs/test_site.py

# Not schemathesis, which asks for newer ones of our own packages than we do.
.venv-oldest/.installed: pyproject.toml
	$(PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip uv
	.venv-oldest/bin/python -m pip install --quiet --no-deps $(TORCH)
	echo schemathesis | .venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python \
	  --resolution lowest-direct --excludes - --editable $(ENDS_WITH)
	@touch $@

.venv-newest/.installed: pyproject.toml
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade pip $(TORCH)
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager \
	  $(TORCH) --editable $(ENDS_WITH)
	@touch $@

# Old packages are told of deprecations by the newer ones below them, and the oldest Starlette's test client
# leaves a stream to the collector; that is not about us.
test-oldest: ENDS_RUN += -W ignore::DeprecationWarning -W ignore::FutureWarning \
  -W 'ignore:Unclosed <MemoryObject:ResourceWarning'

test-oldest test-newest: test-%: .venv-%/.installed
	.venv-$*/bin/python -m pytest --numprocesses 2 --dist loadfile $(ENDS_RUN) --junit-xml .venv-$*/tests.xml $(ARGS)
	.venv-$*/bin/python docs/tested_with.py $* .venv-$*/tests.xml

style: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: style test

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@ $(VENV)/.installed

data: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/datasets

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.installed

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench-docs: $(VENV)/.installed
	$(BIN)/python docs/benchmarks.py
	$(BIN)/python docs/scale.py

$(VENV)/.installed-torch: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable '.[bench,torch]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-bench

bench-dp-sgd-speed: $(VENV)/.installed-torch
	$(BIN)/python benchmarks/dp_sgd_speed.py $(ARGS)

$(VENV)/.installed-explain: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[bench,explain]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-bench

bench-masking: $(VENV)/.installed-explain

bench-whatif-deep: $(VENV)/.installed-torch

$(VENV)/.installed-boosted: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[bench,boosted]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-bench

bench-any-model: $(VENV)/.installed-boosted

$(VENV)/.installed-secure: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[bench,secure]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-bench

bench-private-valuation: $(VENV)/.installed-secure
	$(BIN)/python benchmarks/private_valuation.py $(ARGS)

bench-valuation-attacks: $(VENV)/.installed-secure
	$(BIN)/python benchmarks/valuation_attacks.py $(ARGS)

$(VENV)/.installed-page: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[bench]' 'playwright>=1.40'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-bench

bench-page: $(VENV)/.installed-page $(VENV)/.browser

$(VENV)/.installed-mechanisms: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable '.[bench,torch,trees,synthetic]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-bench $(VENV)/.installed-torch

# Previews first, then the attacks on every mechanism.
bench-frontier: $(VENV)/.installed-mechanisms
	$(BIN)/python benchmarks/frontier.py $(if $(DATA),--data $(DATA)) $(ARGS)
	$(BIN)/python benchmarks/frontier_audit.py --again $(filter --quick,$(ARGS))

# The attacks stand on these models: how fast they are belongs to it.
bench-lira: bench-dp-sgd-speed

bench-%: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/$(subst -,_,$*).py $(if $(DATA),--data $(DATA)) $(ARGS)

# Each in an environment of its own, since their pins disagree; what cannot be installed is said, and
# left out of the comparison.
PEERS ?= .peers

EACH_PEERS := peers-science peers-torch peers-jax peers-attacks peers-privacyguard
# Not on the package index: `make peers-leakpro` takes it from its repository and needs git.
REPOSITORY_PEERS := peers-leakpro
.PHONY: $(EACH_PEERS) $(REPOSITORY_PEERS)

peers: $(EACH_PEERS)

$(EACH_PEERS) $(REPOSITORY_PEERS): peers-%:
	$(PYTHON) -m venv $(PEERS)/$*
	$(PEERS)/$*/bin/python -m pip install --quiet --upgrade pip
	if grep --quiet '^torch==' benchmarks/peers/$*.txt; then \
	  $(PEERS)/$*/bin/python -m pip install --quiet $$(grep '^torch==' benchmarks/peers/$*.txt); fi
	$(PEERS)/$*/bin/python -m pip install --quiet --requirement benchmarks/peers/$*.txt
	$(PEERS)/$*/bin/python benchmarks/peers/installed.py $(PEERS_IN_$*) | tee $(PEERS)/$*/versions.json

PEERS_IN_science := pyinfluence statsmodels diffprivlib
PEERS_IN_torch := torch pydvl dattri
PEERS_IN_jax := jax_privacy
PEERS_IN_attacks := sacroml
PEERS_IN_privacyguard := privacy_guard
PEERS_IN_leakpro := torch

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .peers demo dist build docs/_build
