# `make demo` and `make test` do all the set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data

.DEFAULT_GOAL := help
.PHONY: help demo test style check format clean peers

help:
	@echo "make demo    set up, run the whole story on bundled data, write demo/report.html"
	@echo "make test    set up what the tests need and run them all"
	@echo "make check   ruff, mypy --strict, and the tests"
	@echo "make bench-whatif-adult DATA=DIR   one benchmark of benchmarks/"
	@echo "make peers   an environment of their own for the libraries we compare with"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.browser:
	./tests/page/install-browser
	@mkdir -p $(VENV) && touch $@

demo: $(VENV)/.installed
	$(BIN)/epsilens demo --out demo

test: $(VENV)/.installed-dev $(VENV)/.browser
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

style: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: style test

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-%: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/$(subst -,_,$*).py --data $(DATA) $(ARGS)

peers:
	$(PYTHON) -m venv .peers
	.peers/bin/python -m pip install --quiet --upgrade pip
	.peers/bin/python -m pip install --quiet --requirement benchmarks/peers.txt
	.peers/bin/python -m pip list

clean:
	rm -rf $(VENV) .peers demo dist build
