# make         set up .venv, build what the puzzles run on and check the first one; then `make everything` goes on in
#              the background, into build/everything.log
# make everything   the simulator's library of fgn's kernels, the GPU library where a GPU is, and the notebooks, run
#              into build/notebooks/; `make gpu` builds the GPU library without a GPU too
# make install PREFIX=...   the C library: header, shared and static libraries, pkg-config, CMake; DEVICE=cpu or
#              DEVICE=cuda leaves the other one out
# make test    formatting, lint, tests, notebooks, tests under AddressSanitizer and UndefinedBehaviorSanitizer:
#              three quarters of an hour on two cores from a fresh clone
# make test-cudasim, make test-fgn    one half of the tests each: the simulator's, and the kernels'
# make lab     the notebooks, to play with; the libraries are built while you read
# make browser all notebooks in JupyterLab and a browser, as a reader has them: needs chromium, minutes; `make test`
#              does that with the first one, a puzzle and the stop button
# make book    the notebooks as a book of static pages, with the outputs that they were saved with
# make bench   every version beside torch
# make profile every launch by Nsight Compute, into profiles/<this card>/: about ten minutes on a GPU
#
# pip takes its indexes from its own settings. On a machine without a GPU, name PyTorch's CPU index there
# (PIP_EXTRA_INDEX_URL) before the first `make`: the default build of torch brings gigabytes of CUDA libraries.

PYTHON ?= python3
# pip compiles no bytecode here (--no-compile), and images of containers often forbid Python to keep what it
# compiles. Then every process would compile torch's modules anew, which takes longer than to run them.
export PYTHONDONTWRITEBYTECODE =
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
C_FILES = $(shell find bugs cuda_c cudasim examples fgn lab tests -name build -prune -o -name '*.[ch]' -print \
	-o -name '*.cu' -print -o -name '*.cpp' -print)
# The compiler that kernels are built with, which need not be make's, and its family: gcc or clang.
COMPILER = $(shell $(BIN)/python -c "from cudasim.building import compilers; print(compilers.find_c_compiler())")
FAMILY = $(shell $(BIN)/python -c "from cudasim.building import compilers as c; print(c.version_of(c.find_c_compiler())[0])")
SANITIZER_RUNTIME = $(shell $(COMPILER) -print-file-name=libasan.so) $(shell $(COMPILER) -print-file-name=libstdc++.so)

.PHONY: all first everything build counted gpu install notebooks test test-cudasim test-fgn check arithmetic sanitize sanitize-threads sanitize-gpu lab browser book bench profile \
	record clean

# A learner waits for the first puzzle alone. The rest has the processor when nobody else wants it.
all: first
	@mkdir -p build
	@nohup nice $(MAKE) everything > build/everything.log 2>&1 < /dev/null &
	@echo "The puzzles are ready: make lab. The rest is built in the background: build/everything.log"

first: $(READY)
	$(BIN)/python tools/first_puzzle.py

everything: build notebooks

# What the notebooks need comes first, so that a learner waits for nothing else. The simulator that counts and checks
# needs little of it: one core compiles it while the other one unpacks torch and JupyterLab. Where that fails, the
# notebooks can be read all the same, and `make first` says why.
$(READY): pyproject.toml cudasim/pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint requirements.lock --editable ./cudasim
	$(BIN)/python -c "from cudasim.building.library import COUNTED_SIMULATOR as simulator; simulator.build()" \
		> $(VENV)/simulator.log 2>&1 & \
	$(BIN)/python -m pip install --quiet --no-compile --constraint requirements.lock --editable '.[notebooks]' && \
	{ wait $$! || true; }
	touch $@

# With a lock: `make` leaves this to the background, and `make test` may follow at once.
$(INSTALLED): $(READY)
	flock $(VENV) $(BIN)/python -m pip install --quiet --no-compile --requirement requirements.lock
	touch $@

build: $(INSTALLED)
	$(BIN)/python -m fgn build

gpu: $(INSTALLED)
	$(BIN)/python -m fgn build --gpu

install: $(INSTALLED)
	@test -n "$(PREFIX)" || { echo "make install: expected PREFIX=folder"; exit 2; }
	$(BIN)/python -m fgn install "$(PREFIX)" $(if $(DEVICE),--device $(DEVICE))

# A notebook's cell that needs the simulator that counts and checks would build it, and has a limit of time, which
# a slow machine's compiler exceeds.
counted: build
	$(BIN)/python -m fgn build --counted

notebooks: counted
	$(BIN)/python tools/notebooks.py

check: $(INSTALLED)
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Two tests run at a time: most of them are one thread of Python for most of their time. Where there is nvcc but no
# GPU, the GPU library is compiled for its lowest and its highest architecture only, which takes two fifths of the
# time: every branch of the source is compiled for one of the two. Nobody runs that library, so an nvcc that can
# compile fast does so (a fifth of the time, the same errors and warnings); `make gpu` optimises.
ARCHITECTURES_OF_TESTS = $(if $(shell command -v nvidia-smi),,75 90a)
FLAGS_OF_TESTS = $(if $(shell command -v nvidia-smi),,$(if $(shell nvcc --help 2>/dev/null | grep -e --Ofast-compile),-Ofc max --compress-mode=none))

test test-cudasim test-fgn: export FGN_GPU_ARCHITECTURES ?= $(ARCHITECTURES_OF_TESTS)
test test-cudasim test-fgn: export FGN_NVCC_FLAGS ?= $(FLAGS_OF_TESTS)
test test-cudasim test-fgn: export FGN_GUESSES = recorded
# Two processes on two cores: a second thread of torch in each would mostly wait for the first one, and computes
# while it waits.
test test-cudasim test-fgn: export OMP_NUM_THREADS ?= 1
# Problems are drawn anew by `pytest tests/fgn/test_accuracy.py`; two runs of `make test` test the same.
test test-cudasim test-fgn: export FGN_ACCURACY_SEED ?= 1
test: check
	$(BIN)/python -m fgn build --gpu
	$(MAKE) test-cudasim
	$(MAKE) test-fgn
	$(MAKE) arithmetic
	$(MAKE) sanitize

# The simulator's own tests.
test-cudasim: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -p no:nbmake tests/cudasim

# The tests of the kernels and of what stands on them, and the notebooks. Of the puzzles' notebooks, which are written
# by one tool, three run: the first, that of programs and that of reports. tests/fgn/test_puzzles.py compares the cells
# of all of them with the definitions, and compiles, checks and draws every puzzle.
NOTEBOOKS_OF_TESTS = $(wildcard notebooks/*.ipynb) \
	$(foreach name,01_threads 11_host_code 12_profiles,notebooks/puzzles/$(name).ipynb)
test-fgn: counted
	$(BIN)/python -m pytest -n 2 --dist worksteal --nbmake --nbmake-timeout=300 tests/fgn lab $(NOTEBOOKS_OF_TESTS)

# The sanitizers look at where memory is accessed, so only tests run that launch a kernel with sizes, types, alignments
# or lifetimes of their own: those that are marked `memory`. (What is counted or checked runs on the counted simulator,
# which no sanitizer watches.) The sanitizers' runtime has to be in the process before Python itself. Python never
# frees everything that it allocates, so leaks are not looked for. clang's runtime is another one.
sanitize: $(INSTALLED)
	$(if $(filter clang,$(FAMILY)),@echo "make sanitize: left out: it needs gcc. The compiler is $(COMPILER)",$(SANITIZED))

define SANITIZED
	CUDASIM_SANITIZE=1 $(BIN)/python -m fgn build
	CUDASIM_SANITIZE=1 ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(SANITIZER_RUNTIME)" \
		$(BIN)/python -m pytest -n 2 --dist worksteal -p no:nbmake -m "simulator and memory" \
		$$(grep -rl -e mark.memory -e marked_by_size --include="test_*.py" tests)
endef

# Another processor's torch and another compiler's flags round otherwise, and no test may depend on that. So the tests
# of values run once more with what every processor has: no fused multiply-add, and torch without vector code. One
# file of each kind is about a minute; ARITHMETIC_TESTS=tests runs all that look at values.
BASELINE = $(if $(filter x86_64,$(shell uname -m)),-march=x86-64-v2)
ARITHMETIC_TESTS ?= $(addprefix tests/fgn/,test_modules.py test_operators.py test_few_rows.py)
arithmetic: $(INSTALLED)
	FGN_CACHE="$(CURDIR)/build/arithmetic" CUDASIM_C_FLAGS="$(BASELINE) -ffp-contract=off" ATEN_CPU_CAPABILITY=default \
		$(BIN)/python -m pytest -n 2 --dist worksteal -p no:nbmake -m simulator $(ARITHMETIC_TESTS)

# Only the C program of eight threads under ThreadSanitizer, which `make sanitize` runs too.
sanitize-threads: $(INSTALLED)
	CUDASIM_SANITIZE=1 $(BIN)/python -m pytest tests/fgn/test_threads.py -k sanitizer

# On a GPU: memory errors, races in shared memory, reads of uninitialised memory, misuse of barriers.
sanitize-gpu: build
	for tool in memcheck racecheck initcheck synccheck; do \
		compute-sanitizer --tool $$tool --kernel-name regex=_kernel --error-exitcode 1 \
			$(BIN)/python tools/every_kernel.py || exit 1; \
	done

lab: $(READY)
	$(BIN)/python tools/lab.py

browser: build
	FGN_BROWSER=all $(BIN)/python -m pytest -rs tests/fgn/test_browser.py

book: $(INSTALLED)
	$(BIN)/python tools/book.py

bench: build
	$(BIN)/python -m fgn bench --all --precisions

# All records of the GPU that is here, resumed where an earlier run ended: make record RECORD="--seconds 600"
record: build
	$(BIN)/python tools/record.py $(RECORD)

profile: build
	$(BIN)/python -m fgn profile --record

clean:
	rm -rf build
