# tern. `make` builds the programs and the library; `make help` lists the rest.
#
# CC, CFLAGS, LDFLAGS, PREFIX and DESTDIR are honoured. BUILD names the folder of the objects, so
# that several builds (compilers, sanitizers, targets) can live side by side; other flags in the
# same folder rebuild it. EXTRA adds compiler flags, PORTABLE=1 leaves out what only Linux has,
# REF_ONLY=1 leaves out every target except plain C (the sanitizers take minutes to compile the
# others), V=1 shows whole commands.
#
# A file of src/kernels named <arch>_<isa>.c is built only for that architecture. A file that needs
# flags of its own states them in its first line as `/* cflags: ... */`; a level of optimization
# there yields to CFLAGS from outside.
#
# tests/unit holds Check suites, tests/prog plain programs that print what they found (they also run
# where Check is missing, as under an emulator), tests/fuzz libFuzzer targets, tests/support what
# they share. Each is linked with the library; none needs a line here. A first line
# `/* ldflags: ... */` adds flags for linking it.

CC ?= cc
AR ?= ar
CLANG ?= clang
IS_CLANG := $(findstring clang,$(shell $(CC) --version))
# What runs once a call or less is as good when it is small. libc checks the sizes that it knows.
ifeq ($(origin CFLAGS),undefined)
SMALLEST := $(shell $(CC) -Oz -E -xc /dev/null >/dev/null 2>&1 && echo -Oz || echo -Os)
CFLAGS := $(SMALLEST) -g -fno-asynchronous-unwind-tables -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
OWN_LEVELS := 1
endif
# Relocations take 24 bytes each, or next to nothing packed; glibc reads that from 2.36 on.
RELR := $(shell printf '\043include <limits.h>\n\043if !__GLIBC_PREREQ(2, 36)\n\043error\n\043endif\nint main(void) { return 0; }\n' | \
	$(CC) -xc - -Wl,--fatal-warnings,-z,pack-relative-relocs -o /dev/null 2>/dev/null && echo ,-z,pack-relative-relocs)
LDFLAGS ?= -Wl,-z,relro,-z,now$(RELR)
BUILD ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
FUZZ_SECONDS ?= 60
# How to run a program built for another machine: EMULATOR="qemu-aarch64 -cpu max".
EMULATOR ?=

VERSION := $(shell sed -n 's/^.define TERN_VERSION "\(.*\)"/\1/p' include/tern.h)
SONAME := libtern.so.$(firstword $(subst ., ,$(VERSION)))

# Several machines: `make MPI=1`, with any MPI whose compiler is called mpicc. ALONE is the folder of a build
# without it, if there is one: what knows nothing of several machines is taken from there.
MPICC ?= mpicc
ifneq ($(MPI),)
ifeq ($(shell command -v $(MPICC)),)
$(error MPI=1 needs $(MPICC): apt-get install libopenmpi-dev, or libmpich-dev)
endif
MPI_CFLAGS := -DTERN_MPI $(shell $(MPICC) -showme:compile 2>/dev/null || $(MPICC) -compile-info 2>/dev/null | tr ' ' '\n' | grep '^-[ID]')
MPI_LIBS := $(shell $(MPICC) -showme:link 2>/dev/null || $(MPICC) -link-info 2>/dev/null | tr ' ' '\n' | grep -E '^-(L|l|Wl,)')
endif

# After the user's flags, because exactness depends on them (README, "Exact").
STRICT := -std=c11 -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc -fPIC -pthread \
	-fvisibility=hidden -ffp-contract=off -fno-fast-math -fno-unsafe-math-optimizations \
	-fno-associative-math -fno-reciprocal-math -fno-finite-math-only -fsigned-zeros \
	-fno-rounding-math -fno-math-errno -fno-trapping-math -ffunction-sections
WARN := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	$(if $(IS_CLANG),-Wno-unknown-warning-option -Wno-overriding-t-option -Wno-overriding-option \
		-Wno-ignored-optimization-argument)
# What reads the bytes of strangers gets guards on the stack; everywhere they would take 12 KB.
GUARDED := $(addsuffix /%,src/app/cli src/app/serve src/base src/weights src/text \
	src/sample/language src/sample/recognize src/sample/schema) src/app/run/conversation.c
PORTABLE_FLAGS := $(if $(PORTABLE),-DPOOL_PORTABLE -DFPENV_PORTABLE) $(if $(REF_ONLY),-DREF_ONLY)
FLAGS = $(CFLAGS) $(STRICT) $(WARN) $(PORTABLE_FLAGS) $(MPI_CFLAGS) $(EXTRA)
LINK = $(CC) $(CFLAGS) $(EXTRA) -pthread -Wl,--gc-sections $(LDFLAGS)

TARGET := $(shell $(CC) -dumpmachine)
ARCH := $(shell echo $(TARGET) | sed -e 's/^x86_64.*/x86/;s/^aarch64.*/arm/;s/^arm64.*/arm/;s/-.*//')

# Rooms of the library: every folder of src but app. Vector files of other architectures stay out.
LIB_SRC := $(filter-out src/app/% $(foreach other,x86 arm,\
	$(if $(REF_ONLY)$(filter-out $(ARCH),$(other)),$(addprefix src/kernels/,$(other)_% peak/$(other)_%))),\
	$(wildcard src/*/*.c src/*/*/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
ifneq ($(ALONE),)
NO_MPI := $(shell grep -rl TERN_MPI src | grep -rLwFf - --include='*.d' $(ALONE)/src)
SAME := $(filter $(NO_MPI:$(ALONE)/%.d=%.c),$(filter src/kernels/% src/weights/% src/text/% src/sample/% src/quantize/%,$(LIB_SRC)))
LIB_OBJ := $(filter-out $(SAME:%.c=$(BUILD)/%.o),$(LIB_OBJ)) $(SAME:%.c=$(ALONE)/%.o)
endif
# src/app/P/main_P.c makes the program P, with the other files of its folder, of folders in that, and
# of src/app/cli.
# serve alone needs other libraries; it is built where this compiler can link them.
SERVE_NEEDS := libmicrohttpd jansson
SERVE_CFLAGS := $(shell pkg-config --cflags $(SERVE_NEEDS) 2>/dev/null)
SERVE_LIBS := $(shell pkg-config --libs $(SERVE_NEEDS) 2>/dev/null)
HAS_SERVE := $(and $(SERVE_LIBS),$(shell printf '\043include <microhttpd.h>\n\043include <jansson.h>\nint main(void) { return 0; }\n' | \
	$(CC) -xc $(SERVE_CFLAGS) - $(LDFLAGS) $(SERVE_LIBS) -o /dev/null 2>/dev/null && echo 1))
APP_DIRS := $(filter-out $(if $(HAS_SERVE),,src/app/serve/),$(wildcard src/app/*/))
PROGRAMS := $(patsubst main_%.c,%,$(notdir $(wildcard $(APP_DIRS:%=%main_*.c))))
APP_SRC := $(wildcard $(APP_DIRS:%=%*.c) $(APP_DIRS:%=%*/*.c))
PROGRAM_OBJ := $(APP_SRC:%.c=$(BUILD)/%.o)
# The files of src/app/P/page are strings in P: NAME.EXT is page_NAME_EXT. Comments at ends of lines stay out.
PAGE_OBJ := $(patsubst %/,$(BUILD)/%_strings.o,$(wildcard $(APP_DIRS:%=%page/)))
objects_of = $(filter $(BUILD)/src/app/$(1)/%,$(PROGRAM_OBJ) $(PAGE_OBJ))
CLI_LIB := $(BUILD)/src/app/libcli.a

# Those of serve's own files need its libraries, too.
SUITES := $(filter-out $(if $(HAS_SERVE),,test_serve_%),$(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c)))
PROGS := $(patsubst tests/prog/%.c,%,$(wildcard tests/prog/prog_*.c $(if $(MPI),tests/prog/machines_*.c)))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(filter-out %/fuzz_main.c,$(wildcard tests/fuzz/fuzz_*.c)))
# Parts of a program that tests run.
TESTED_LIB := $(BUILD)/tests/libtested.a
SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
# What suites share, with Check.
UNIT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/unit/test_% \
	$(if $(HAS_SERVE),,tests/unit/serve_%),$(wildcard tests/unit/*.c)))
UNIT_LIB := $(BUILD)/tests/libunit.a
SUPPORT_LIB := $(if $(SUPPORT_OBJ),$(BUILD)/tests/libsupport.a)
# Suites in which threads meet, and so what the thread sanitizer runs. It needs a larger stack than
# test_small_stack gives. test_no_io fails calls of one thread; test_stop, test_resume and test_memory_plan have one.
# In the others hardly two threads meet, or they meet as in test_golden: in the pool, below one caller.
THREADED = $(filter-out test_small_stack test_no_io test_rope test_chat_turns test_bombs test_prefix_file \
	test_receipt test_speculate test_text_steps test_stop test_resume test_memory_plan,$(notdir $(basename \
	$(shell grep -lE 'pthread_create|pool_open|n_threads|jobs_start' tests/unit/test_*.c))))

# One job per processor, unless make was started with a number of its own.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
SUBMAKE = $(MAKE) --no-print-directory $(JOBS)

# Commands are shown by what they make, whole with V=1, not at all with -s.
Q := $(if $(V),,@)
SILENT := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
SAY := $(if $(V)$(SILENT),@:,@printf '  %-4s %s\n')

all: $(PROGRAMS) lib
	$(if $(HAS_SERVE),,@echo 'serve is not built: it needs libmicrohttpd and jansson (apt-get install libmicrohttpd-dev libjansson-dev)')

lib: $(BUILD)/libtern.a $(BUILD)/libtern.so

# ---- objects --------------------------------------------------------------------------------

$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(FLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(LDFLAGS)' > $@

# What a file adds to FLAGS: its first line, its folder.
#
# Fuzzers spend most of their time where the automata of constraints compare numbers, which says nothing.
FLAGS_OF_FILE = $(filter-out $(if $(OWN_LEVELS),,-O%),\
		$(shell sed -n '1s,^/\* cflags: \(.*\) \*/.*,\1,p' $<)) \
	$(if $(filter tests/%,$<),-Itests/support,-Wconversion) \
	$(if $(OWN_LEVELS),$(if $(filter $(GUARDED),$<),-fstack-protector-strong)) \
	$(if $(findstring fuzzer,$(EXTRA)),$(if $(filter src/sample/%,$<),-fno-sanitize-coverage=trace-cmp)) \
	$(if $(filter src/app/serve/% tests/unit/test_serve_% tests/unit/serve_%,$<),$(SERVE_CFLAGS)) \
	$(if $(filter tests/unit/%,$<),$(shell pkg-config --cflags check))

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(CC) $(FLAGS) $(FLAGS_OF_FILE) -MMD -MP -c $< -o $@

.SECONDEXPANSION:
$(BUILD)/%_strings.c: $$(sort $$(wildcard $$*/*))
	@mkdir -p $(@D)
	$(SAY) GEN $@
	@for f in $^; do \
		name=$$(echo "$${f##*/}" | tr .- __); \
		echo "extern const char page_$$name[]; const char page_$$name[] ="; \
		sed -e '/^ *\/\*.*\*\/$$/d' -e '/^ *\/\*[^/]*$$/,/\*\/$$/d' -e 's| */\*[^/]*\*/$$||' -e '/^$$/d' \
			-e 's/[\"?]/\\&/g' -e 's/.*/"&\\n"/' $$f; \
		echo ';'; \
	done > $@

$(BUILD)/%_strings.o: $(BUILD)/%_strings.c
	$(SAY) CC $<
	$(Q)$(CC) $(FLAGS) -c $< -o $@

# ---- programs and library -------------------------------------------------------------------

$(BUILD)/libtern.a: $(LIB_OBJ)
	$(SAY) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/libtern.so $(BUILD)/package/libtern.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(filter-out -static,$(LINK)) -shared -Wl,-soname,$(SONAME) $^ $(MPI_LIBS) -lm -o $@

$(CLI_LIB): $(call objects_of,cli)
	$(SAY) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(PROGRAMS:%=$(BUILD)/%) $(PROGRAMS:%=$(BUILD)/package/%): $$(call objects_of,$$(@F)) $(CLI_LIB) \
		$(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(SAY) LINK $@
	$(Q)$(LINK) $(if $(filter -static,$(LDFLAGS)),,-pie) $^ $(if $(filter serve,$(@F)),$(SERVE_LIBS)) $(MPI_LIBS) -lm -o $@

$(PROGRAMS): %: $(BUILD)/%
	@cp -f $< $@

# What the Python package holds (tools/setup.py): stripped, and for C libraries older than RELR, too.
PACKAGED := $(addprefix $(BUILD)/package/,libtern.so look quantize run)
$(PACKAGED): private LDFLAGS := $(subst $(RELR),,$(LDFLAGS)) -Wl,-s
package: $(PACKAGED)
	@:

# ---- tests ----------------------------------------------------------------------------------

$(BUILD)/tests/libsupport.a: $(SUPPORT_OBJ)
	$(SAY) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(TESTED_LIB): $(addprefix $(BUILD)/src/app/run/,conversation.o resume.o) \
		$(filter-out %/main_serve.o,$(filter %.o,$(call objects_of,serve)))
	$(SAY) AR $@
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(UNIT_LIB): $(UNIT_OBJ)
	$(SAY) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

ldflags_of = $(shell sed -n '1s,^/\* ldflags: \(.*\) \*/.*,\1,p' $(1))

# Suites of programs' own files need them: src/app/cli, and TESTED_LIB.
$(SUITES:%=$(BUILD)/tests/%): $(BUILD)/tests/%: $(BUILD)/tests/unit/%.o \
		$(UNIT_LIB) $(SUPPORT_LIB) $(TESTED_LIB) $(CLI_LIB) \
		$(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $(call ldflags_of,tests/unit/$*.c) $^ $$(pkg-config --libs check) \
		$(if $(filter test_serve_%,$*),$(SERVE_LIBS)) $(MPI_LIBS) -lm -o $@

$(PROGS:%=$(BUILD)/tests/%): $(BUILD)/tests/%: $(BUILD)/tests/prog/%.o $(SUPPORT_LIB) \
		$(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $^ $(MPI_LIBS) -lm -o $@

# Any compiler's replay of the corpus, and the fuzzers themselves (in a build with libFuzzer).
$(FUZZERS:%=$(BUILD)/tests/replay_%): $(BUILD)/tests/replay_%: $(BUILD)/tests/fuzz/%.o \
		$(BUILD)/tests/fuzz/fuzz_main.o $(TESTED_LIB) $(CLI_LIB) $(SUPPORT_LIB) $(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $(call ldflags_of,tests/fuzz/$*.c) $^ $(MPI_LIBS) -lm -o $@

$(FUZZERS:%=$(BUILD)/tests/%): $(BUILD)/tests/%: $(BUILD)/tests/fuzz/%.o $(TESTED_LIB) $(CLI_LIB) \
		$(SUPPORT_LIB) $(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $(call ldflags_of,tests/fuzz/$*.c) -fsanitize=fuzzer $^ $(MPI_LIBS) -lm -o $@

suites: $(SUITES:%=$(BUILD)/tests/%)
	@:
progs: $(PROGS:%=$(BUILD)/tests/%)
	@:
replays: $(FUZZERS:%=$(BUILD)/tests/replay_%)
	@:

# The whole suite, or the KINDS of tests/run-tests alone. Installs what it lacks, or says what to. Where there
# is MPI, so are the programs for several machines, in $(BUILD)-mpi.
test:
	@tests/need-tools
	+@$(SUBMAKE) all suites progs replays
	+@[ -z "$(if $(KINDS),$(filter sh py,$(KINDS)),all)" ] || ! command -v $(MPICC) >/dev/null || \
		$(SUBMAKE) MPI=1 BUILD=$(BUILD)-mpi ALONE=$(BUILD) machines
	@BUILD=$(BUILD) CC="$(CC)" KINDS="$(KINDS)" QUICK="$(QUICK)" tests/run-tests

# What tests run on several machines.
machines: lib $(PROGRAMS:%=$(BUILD)/%) $(addprefix $(BUILD)/tests/,$(filter machines_%,$(PROGS)))
	@:

# What runs without Check, a shell or Python: for cross builds, with EMULATOR.
test-progs:
	+@$(SUBMAKE) progs replays
	@BUILD=$(BUILD) EMULATOR="$(EMULATOR)" KINDS="prog replay" tests/run-tests

# The C suites and SANITIZED_CLI, which run the programs, under the address and undefined-behaviour
# sanitizers, then the threaded suites under the thread sanitizer.
#
# Without the sizes of objects, which the address sanitizer knows, gcc compiles the vector files in a
# fraction of the time. Names of variables (-g) cost another third.
SANITIZED_CLI ?= test_chat_cli test_chat_editing test_cli test_sampling_cli test_session_cli test_serve_mutate
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	-fno-sanitize=object-size
sanitize:
	@tests/need-tools
	+@$(SUBMAKE) BUILD=build-asan EXTRA="$(EXTRA) $(SANITIZE)" CFLAGS="-O1 -g1" test-sanitized
	+@$(SUBMAKE) BUILD=build-tsan EXTRA="$(EXTRA) -fsanitize=thread" CFLAGS="-O1 -g1" test-threaded

test-sanitized: suites progs replays $(PROGRAMS:%=$(BUILD)/%)
	@BUILD=$(BUILD) QUICK=1 CK_FORK=no KINDS="c prog replay" tests/run-tests
	@BUILD=$(BUILD) QUICK=1 KINDS=py ONLY="$(SANITIZED_CLI)" tests/run-tests

test-threaded: $(THREADED:%=$(BUILD)/tests/%)
	@BUILD=$(BUILD) QUICK=threads CK_FORK=no KINDS=c ONLY="$(THREADED)" tests/run-tests

# The programs under the memory sanitizer and clang's checks of undefined behaviour. Only what links
# nothing but libc: Check is built without the sanitizer, and it would take what Check writes for
# unwritten. It does not know the names that _FILE_OFFSET_BITS gives to fstat and others.
MEMORY_TESTS ?= prog_exact prog_pool prog_q4c prog_sampler $(FUZZERS) $(filter-out test_serve%,$(SANITIZED_CLI))
sanitize-memory:
	@tests/need-tools
	+@$(SUBMAKE) BUILD=build-msan REF_ONLY=1 CC="$(CLANG)" CFLAGS="-O1 -g" EXTRA="$(EXTRA) \
		-fsanitize=memory,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
		-fsanitize-memory-track-origins -U_FILE_OFFSET_BITS" test-memory

test-memory: progs replays $(PROGRAMS:%=$(BUILD)/%)
	@BUILD=$(BUILD) QUICK=1 KINDS="prog replay py" ONLY="$(MEMORY_TESTS)" tests/run-tests

# The branches of the parsers of strangers' bytes that the tests take, each condition of a decision
# counted both ways; below PARSERS are the files, and COVERING the tests that are run.
PARSERS := $(addprefix src/weights/,weights.c keys.c foreign.c) src/model/config.c \
	src/model/session.c $(addprefix src/text/,tokenizer.c tokenizer_steps.c vocab.c added.c chat.c) \
	src/app/run/conversation.c src/app/cli/parser.c src/app/cli/number.c
COVERING = $(SUITES) $(FUZZERS) $(SANITIZED_CLI)
coverage:
	@tests/need-tools
	+@$(SUBMAKE) BUILD=build-coverage REF_ONLY=1 CC="$(CLANG)" CFLAGS="-O1 -g" \
		EXTRA="$(EXTRA) -fprofile-instr-generate -fcoverage-mapping" test-covered

test-covered: suites replays lib $(PROGRAMS:%=$(BUILD)/%)
	@rm -rf $(BUILD)/profiles
	@BUILD=$(BUILD) QUICK=1 KINDS="c replay py" ONLY="$(COVERING)" \
		LLVM_PROFILE_FILE="$(CURDIR)/$(BUILD)/profiles/%4m.profraw" tests/run-tests
	@BUILD=$(BUILD) tests/coverage $(PARSERS)

# Each fuzzer for FUZZ_SECONDS, one on each processor; new inputs go to build-fuzz/corpus, failures
# stop with their file. Their own files lie in memory where they can: a disk takes 30 times as long
# to sync them.
fuzz:
	+@$(SUBMAKE) BUILD=build-fuzz REF_ONLY=1 CC="$(CLANG)" CFLAGS="-O1 -g" EXTRA="$(EXTRA) \
		-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" fuzzers
	+@$(SUBMAKE) $(FUZZERS:%=run-%)

run-fuzz_%:
	@mkdir -p build-fuzz/corpus/fuzz_$* tests/fuzz/corpus/fuzz_$*
	@TMPDIR=$$([ -w /dev/shm ] && echo /dev/shm || echo /tmp) \
		build-fuzz/tests/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -timeout=30 -rss_limit_mb=512 \
		-verbosity=0 -print_final_stats=1 -artifact_prefix=build-fuzz/ \
		build-fuzz/corpus/fuzz_$* tests/fuzz/corpus/fuzz_$*

fuzzers: $(FUZZERS:%=$(BUILD)/tests/%)

# Hours of fuzzing, exactness, damaged sources and mutants: what to set is in the script.
campaign:
	+@MAKE="$(MAKE)" tests/campaign

# What gcc's -fanalyzer and clang-tidy (.clang-tidy) find, held to the findings that were read.
analyze:
	@command -v clang-tidy >/dev/null || { echo 'make analyze needs clang-tidy.' >&2; exit 2; }
	+@$(SUBMAKE) BUILD=build-analyze findings

findings: $(patsubst %.c,$(BUILD)/%.findings,$(LIB_SRC) $(APP_SRC) $(wildcard tests/support/*.c))
	@tests/analyze $^

$(BUILD)/%.findings: %.c FORCE
	@mkdir -p $(@D)
	$(SAY) READ $<
	$(Q)$(CC) $(FLAGS) $(FLAGS_OF_FILE) -fanalyzer -fdiagnostics-path-format=none -S -o /dev/null $< 2>$@
	$(Q)clang-tidy --quiet $< -- $(filter -std% -D% -I%,$(STRICT)) $(filter -I% -m%,$(FLAGS_OF_FILE)) \
		>>$@ 2>/dev/null

# ---- install --------------------------------------------------------------------------------

# run is installed as `tern`, any other program X as `tern-X`. Folders may have spaces in their names.
IN_BINDIR = "$(DESTDIR)$(BINDIR)/$(patsubst tern-run,tern,tern-$(1))"
IN_LIBDIR = "$(DESTDIR)$(LIBDIR)/$(1)"
IN_MANDIR = "$(DESTDIR)$(MANDIR)/man1/$(notdir $(1))"
IN_INCLUDEDIR = "$(DESTDIR)$(INCLUDEDIR)/$(notdir $(1))"

PAGES := $(wildcard $(APP_DIRS:%=%*.1))
HEADERS := $(wildcard include/*.h)

install: $(PROGRAMS:%=$(BUILD)/%) lib
	install -d "$(DESTDIR)$(BINDIR)" $(call IN_LIBDIR,pkgconfig) "$(DESTDIR)$(INCLUDEDIR)" $(call IN_MANDIR)
	$(foreach p,$(PROGRAMS),install -m 755 $(BUILD)/$(p) $(call IN_BINDIR,$(p)) &&) true
	$(foreach h,$(HEADERS),install -m 644 $(h) $(call IN_INCLUDEDIR,$(h)) &&) true
	install -m 644 $(BUILD)/libtern.a $(call IN_LIBDIR,libtern.a)
	install -m 755 $(BUILD)/libtern.so $(call IN_LIBDIR,libtern.so.$(VERSION))
	ln -sf libtern.so.$(VERSION) $(call IN_LIBDIR,$(SONAME))
	ln -sf $(SONAME) $(call IN_LIBDIR,libtern.so)
	sed -e 's,@PREFIX@,$(PREFIX),;s,@LIBDIR@,$(LIBDIR),;s,@INCLUDEDIR@,$(INCLUDEDIR),' \
		-e 's,@VERSION@,$(VERSION),' src/engine/tern.pc.in > $(call IN_LIBDIR,pkgconfig/tern.pc)
	$(foreach p,$(PAGES),install -m 644 $(p) $(call IN_MANDIR,$(p)) &&) true
	@echo 'Run ldconfig, so that programs find libtern.so.'

uninstall:
	rm -f $(foreach p,$(PROGRAMS),$(call IN_BINDIR,$(p))) \
		$(foreach h,$(HEADERS),$(call IN_INCLUDEDIR,$(h))) $(call IN_LIBDIR,libtern.a) \
		$(call IN_LIBDIR,libtern.so) $(call IN_LIBDIR,$(SONAME)) \
		$(call IN_LIBDIR,libtern.so.$(VERSION)) $(call IN_LIBDIR,pkgconfig/tern.pc) \
		$(foreach p,$(PAGES),$(call IN_MANDIR,$(p)))

# ---- housekeeping ---------------------------------------------------------------------------

format:
	clang-format -i include/*.[ch] $(wildcard src/*/*.[ch] src/*/*/*.[ch] src/*/*/*/*.[ch]) $(wildcard tests/*/*.[ch])

# The longest files and functions, and the size of the programs.
stats:
	@tests/rooms.sh --longest
	@size $(wildcard $(PROGRAMS:%=$(BUILD)/%)) 2>/dev/null || true

clean:
	rm -rf build build-* $(PROGRAMS)

help:
	@echo 'make             the programs ($(PROGRAMS)) and the library'
	@echo 'make test        everything that can be tested; installs what it lacks or says so'
	@echo 'make sanitize    tests under the address, undefined-behaviour and thread sanitizers'
	@echo 'make sanitize-memory  the programs under the memory sanitizer (needs clang)'
	@echo 'make coverage    the branches of the parsers that the tests take (needs clang and llvm)'
	@echo 'make analyze     what gcc -fanalyzer and clang-tidy find that was not read (needs both)'
	@echo 'make fuzz        each fuzzer for FUZZ_SECONDS=$(FUZZ_SECONDS) (needs clang)'
	@echo 'make campaign    hours of fuzzing, exact runs, damaged files and mutants (tests/README.md)'
	@echo 'make test-progs  the tests without Check: for cross builds, with EMULATOR="qemu-aarch64"'
	@echo 'make package     the library and programs that a Python wheel holds (pip install ./tools)'
	@echo 'make install     programs, library, headers, man pages; PREFIX=$(PREFIX), DESTDIR'
	@echo 'make uninstall   takes away what install put there'
	@echo 'make format      clang-format over all C files'
	@echo 'make stats       the longest files and functions, the size of the programs'
	@echo 'make clean       removes build, build-* and the programs'
	@echo 'Another compiler or target: make CC=aarch64-linux-gnu-gcc BUILD=build-arm'

.PHONY: all lib package suites progs replays fuzzers machines test test-progs test-sanitized test-threaded sanitize \
	sanitize-memory test-memory coverage test-covered fuzz campaign analyze findings install uninstall format stats clean help FORCE
.SECONDARY:

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
