PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
EXTRA := $(PIP) --no-compile
PARALLEL := --numprocesses auto --dist loadfile
MINUTES := 10
READERS := $(VENV)/megatron $(VENV)/megatron-bridge $(VENV)/llm-foundry
export NANOTRON MEGATRON_DEEPSPEED
unexport PYTHONDONTWRITEBYTECODE
EXAMPLE := --model examples/llama-3.1-70b/config.json --cluster 8x8:h100 --seq-len 8192 --global-batch 256

.PHONY: plan test test-clients fuzz launch-files lint types check bench truth baseline audit lock fit published verified readme notebooks memos recipes docs clean

plan: $(VENV)/core ## build the environment and plan Llama-3.1 70B on 64 H100
	$(BIN)/meshwright plan $(EXAMPLE)

test: $(VENV)/dev ## run every test that needs no other package
	$(BIN)/python -m pytest -m "not clients" $(PARALLEL)

test-clients: $(VENV)/clients $(READERS) $(VENV)/axe ## compare with PyTorch and its frameworks, and sweep with pyarrow and Dask
	$(BIN)/python -m pytest -m clients $(PARALLEL)

fuzz: $(VENV)/dev $(VENV)/sweep ## random questions and files to every command, 200 kills of each kind of output, 200 interrupts
	$(BIN)/python tests/fuzz/fuzzer.py --minutes $(MINUTES)
	KILLS=200 $(BIN)/python -m pytest tests/fuzz/test_killed.py tests/search/test_stop.py $(PARALLEL)

launch-files: $(VENV)/clients $(READERS) $(VENV)/dacite ## 500 plans of each framework read back, by its own objects too; 10,000 mutated files; NANOTRON=... MEGATRON_DEEPSPEED=... name checkouts
	ROUND_TRIPS=500 FILES_TRIED=10000 $(BIN)/python -m pytest tests/launch/test_round_trip.py tests/launch/test_mutated_files.py $(PARALLEL)
	PLANS_READ=100 $(BIN)/python -m pytest -m clients tests/launch/test_launch_clients.py tests/launch/test_launch_checkouts.py $(PARALLEL)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/mypy
	$(BIN)/mypy benchmarks

check: lint types test

bench: $(VENV)/core ## how fast the planner is, beside peers that are installed
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/peers.py

truth: $(VENV)/core ## predicted against measured runs
	$(BIN)/meshwright validate

baseline: $(VENV)/core ## write the score that tests hold later changes against
	$(BIN)/python benchmarks/baseline.py

audit: $(VENV)/dev ## hold what is installed against requirements-dev.txt, without a network
	$(BIN)/python benchmarks/audit.py

lock: $(VENV)/core ## pin what the tests run with, by hash
	$(BIN)/python benchmarks/lock.py

fit: $(VENV)/core ## fit the constants that training runs alone can give, and the error bars
	$(BIN)/python benchmarks/fit.py

published: $(VENV)/core ## write what is predicted for published runs, where prices alone changed
	$(BIN)/python benchmarks/published.py

verified: $(VENV)/clients $(VENV)/torchtitan ## plans drawn anew held against PyTorch; SEED=... CASES=... MINUTES=...
	$(BIN)/python benchmarks/verified.py $(if $(SEED),--seed $(SEED)) $(if $(CASES),--cases $(CASES)) $(if $(MINUTES),--minutes $(MINUTES))

readme: $(VENV)/clients notebooks ## write the answers that the README and the pages show
	$(BIN)/python benchmarks/readme.py

notebooks: $(VENV)/core ## run the notebooks of docs/notebooks and write what they say
	$(BIN)/python benchmarks/notebooks.py

memos: $(VENV)/core ## write the memos of examples/memos
	$(BIN)/python benchmarks/memos.py

recipes: $(VENV)/core ## price published recipes and what is recommended beside them
	$(BIN)/python benchmarks/recipes.py

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) site dist

# pip compiles what it installs, but not what it installs in place: where PYTHONDONTWRITEBYTECODE is set, each start would.
$(VENV)/core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Meshwright needs Python 3.11 or newer; set PYTHON=python3.12, say" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	$(BIN)/python -m compileall -q src/meshwright
	@touch $@

# Most of PyTorch and of its frameworks is never imported here: each module is compiled when it first is.
$(VENV)/dev $(VENV)/sweep $(VENV)/clients $(VENV)/torchtitan $(VENV)/docs: $(VENV)/core
	$(EXTRA) --editable '.[dev$(if $(filter-out dev,$(@F)),$(comma)$(@F))]'
	@touch $@

# Megatron-LM's command line came into the wheel with 0.17. It asks for Python 3.12 and runs on 3.11; without it its test is skipped.
$(VENV)/megatron: $(VENV)/clients
	-$(EXTRA) --no-deps --ignore-requires-python --upgrade --target $@ megatron-core==0.19.2 'triton>=3'
	@mkdir -p $@ && touch $@

# Megatron-Bridge asks for packages that want a GPU: it is read without them, beside that Megatron-core.
$(VENV)/megatron-bridge: $(VENV)/megatron
	-$(EXTRA) --no-deps --ignore-requires-python --upgrade --target $@ megatron-bridge==0.6.2 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3
	@mkdir -p $@ && touch $@

# llm-foundry pins an older PyTorch: its schema is read without what it depends on, and without it that test is skipped.
$(VENV)/llm-foundry: $(VENV)/clients
	-$(EXTRA) --no-deps --upgrade --target $@ llm-foundry==0.22.0 catalogue==2.0.10 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3
	@mkdir -p $@ && touch $@

# What nanotron reads its configuration with, where NANOTRON names a checkout of it.
$(VENV)/dacite: $(VENV)/clients
	-$(EXTRA) --no-deps --upgrade --target $@ dacite==1.9.2
	@mkdir -p $@ && touch $@

# The accessibility rules that the page is held to; without npm their check is skipped.
$(VENV)/axe: | $(VENV)/core
	-npm install --silent --no-save --prefix $@ axe-core@4.14.1
	@mkdir -p $@ && touch $@

comma := ,
