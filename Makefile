# tern. `make` builds the programs and the library; `make help` lists the rest.
#
# CC, CFLAGS, LDFLAGS, PREFIX and DESTDIR are honoured. BUILD names the folder of the objects, so
# that several builds (compilers, sanitizers, targets) can live side by side; other flags in the
# same folder rebuild it. EXTRA adds compiler flags, PORTABLE=1 leaves out what is Linux's own,
# REF_ONLY=1 every target but plain C (sanitizers take minutes to compile the others), V=1 shows whole
# commands.
#
# A file of src/kernels named <arch>_<isa>.c is built only for that architecture, with the flags
# that its first line states as `/* cflags: ... */`. Nothing else knows a target's flags.
#
# tests/test_*.c are Check suites, tests/prog_*.c plain programs that print what they found (so they
# also run where Check is not, as under an emulator), tests/fuzz_*.c libFuzzer targets, and every
# other tests/*.c helps them all. Each is linked with the library; none needs a line here. A first
# line `/* ldflags: ... */` adds flags for linking it.

CC ?= cc
AR ?= ar
CLANG ?= clang
IS_CLANG := $(findstring clang,$(shell $(CC) --version))
# What runs once a call or less is as good when it is small (-Os before gcc 12); FAST runs more often than
# that; BRISK, for every character of a text or only where there are experts, is fast enough at -Os.
# Kernels are vectors already: -O3 makes them 6 KB larger and no faster.
ifeq ($(origin CFLAGS),undefined)
CFLAGS := -O2 -g -fno-asynchronous-unwind-tables
KERNEL_CFLAGS := $(if $(IS_CLANG),-fno-vectorize,-fno-tree-vectorize -funswitch-loops)
BRISK_CFLAGS := -Os
SMALL_CFLAGS := $(shell $(CC) -Oz -E -x c /dev/null >/dev/null 2>&1 && echo -Oz || echo -Os)
endif
FAST := src/kernels/% tests/% src/base/pool.c src/base/xxh64.c src/text/candidates.c \
	$(patsubst %,src/model/%.c,steps attention encode factor calibrate)
BRISK := src/kernels/ref.c src/model/experts.c $(patsubst %,src/text/%.c,\
	unicode unicode_data patterns pretokenize normalize tokenizer added trie merge bpe spm unigram)
SMALL := src/kernels/known.c src/kernels/formats.c
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

# After the user's flags, because exactness depends on them (README, "Exact").
STRICT := -std=c11 -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc -fPIC -pthread \
	-fvisibility=hidden -ffp-contract=off -fno-fast-math -fno-unsafe-math-optimizations \
	-fno-associative-math -fno-reciprocal-math -fno-finite-math-only -fsigned-zeros \
	-fno-rounding-math -fno-math-errno -fno-trapping-math -ffunction-sections
WARN := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	$(if $(IS_CLANG),-Wno-unknown-warning-option -Wno-overriding-t-option -Wno-overriding-option)
PORTABLE_FLAGS := $(if $(PORTABLE),-DPOOL_PORTABLE -DFPENV_PORTABLE) $(if $(REF_ONLY),-DREF_ONLY)
FLAGS = $(CFLAGS) $(STRICT) $(WARN) $(PORTABLE_FLAGS) $(EXTRA)
# Smaller programs, where the system can: code and constants in one segment (four pages of padding
# less), and addresses in tables packed (9 KB less; the loader must know how, so by glibc's version).
ONE_SEGMENT := -Wl,-z,noseparate-code
PACKED = $(shell $(CC) -dM -E -include features.h -x c /dev/null 2>/dev/null | awk \
	'$$2 ~ /^__GLIBC(_MINOR)?__$$/ { v[$$2] = $$3 } END { \
	if (v["__GLIBC__"] * 1000 + v["__GLIBC_MINOR__"] >= 2036) print "-Wl,-z,pack-relative-relocs" }')
LINK = $(CC) $(CFLAGS) $(EXTRA) -pthread -Wl,--gc-sections \
	$(if $(findstring linux,$(TARGET)),$(ONE_SEGMENT)) $(if $(filter x86,$(ARCH)),$(PACKED)) $(LDFLAGS)

TARGET := $(shell $(CC) -dumpmachine)
ARCH := $(shell echo $(TARGET) | sed -e 's/^x86_64.*/x86/;s/^aarch64.*/arm/;s/^arm64.*/arm/;s/-.*//')

LIB_SRC := $(filter-out src/kernels/x86_%.c src/kernels/arm_%.c,\
	$(wildcard src/base/*.c src/kernels/*.c src/model/*.c src/text/*.c src/engine/*.c)) \
	$(if $(REF_ONLY),,$(wildcard src/kernels/$(ARCH)_*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
PROGRAMS := $(patsubst src/app/main_%.c,%,$(wildcard src/app/main_*.c))
APP_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/app/main_%.c,$(wildcard src/app/*.c)))

SUITES := $(patsubst tests/%.c,%,$(wildcard tests/test_*.c))
PROGS := $(patsubst tests/%.c,%,$(wildcard tests/prog_*.c))
FUZZERS := $(patsubst tests/%.c,%,$(filter-out tests/fuzz_main.c,$(wildcard tests/fuzz_*.c)))
HELP_OBJ := $(patsubst %.c,$(BUILD)/%.o,\
	$(filter-out tests/test_%.c tests/prog_%.c tests/fuzz_%.c,$(wildcard tests/*.c)))
HELP_LIB := $(if $(HELP_OBJ),$(BUILD)/tests/libhelp.a)
# Suites in which threads meet, and so what the thread sanitizer runs.
THREADED = $(patsubst tests/%.c,%,$(shell grep -lE 'pthread_create|pool_open|n_threads' tests/test_*.c))

# One job per processor, unless make was started with a number of its own.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
SUBMAKE = $(MAKE) --no-print-directory $(JOBS)

# Commands are shown by what they make, whole with V=1, not at all with -s.
Q := $(if $(V),,@)
SILENT := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
SAY := $(if $(V)$(SILENT),@:,@printf '  %-4s %s\n')

all: $(PROGRAMS) lib

lib: $(BUILD)/libtern.a $(BUILD)/libtern.so

# ---- objects --------------------------------------------------------------------------------

$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(FLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(LDFLAGS)' > $@

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(SAY) CC $<
	$(Q)$(CC) $(FLAGS) $(if $(filter src/kernels/$(ARCH)_%,$<),$(KERNEL_CFLAGS)) \
		$(if $(filter $(BRISK),$<),$(BRISK_CFLAGS),\
			$(if $(filter $(SMALL),$<)$(filter-out $(FAST),$<),$(SMALL_CFLAGS))) \
		$(shell sed -n '1s,^/\* cflags: \(.*\) \*/.*,\1,p' $<) \
		$(if $(filter tests/test_%,$<),$(shell pkg-config --cflags check)) -MMD -MP -c $< -o $@

# ---- programs and library -------------------------------------------------------------------

$(BUILD)/libtern.a: $(LIB_OBJ)
	$(SAY) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/libtern.so: $(LIB_OBJ)
	$(SAY) LINK $@
	$(Q)$(filter-out -static,$(LINK)) -shared -Wl,-soname,$(SONAME) $^ -lm -o $@

$(PROGRAMS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/src/app/main_%.o $(APP_OBJ) $(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $^ -lm -o $@

$(PROGRAMS): %: $(BUILD)/%
	@cp -f $< $@

# ---- tests ----------------------------------------------------------------------------------

$(BUILD)/tests/libhelp.a: $(HELP_OBJ)
	$(SAY) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

ldflags_of = $(shell sed -n '1s,^/\* ldflags: \(.*\) \*/.*,\1,p' $(1))

$(SUITES:%=$(BUILD)/tests/%): %: %.o $(HELP_LIB) $(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $(call ldflags_of,$(@:$(BUILD)/%=%.c)) $^ $$(pkg-config --libs check) -lm -o $@

$(PROGS:%=$(BUILD)/tests/%): %: %.o $(HELP_LIB) $(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $^ -lm -o $@

# Any compiler's replay of the corpus, and the fuzzers themselves (in a build with libFuzzer).
$(FUZZERS:%=$(BUILD)/tests/replay_%): $(BUILD)/tests/replay_%: $(BUILD)/tests/%.o \
		$(BUILD)/tests/fuzz_main.o $(HELP_LIB) $(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $(call ldflags_of,$(@:$(BUILD)/tests/replay_%=tests/%.c)) $^ -lm -o $@

$(FUZZERS:%=$(BUILD)/tests/%): %: %.o $(HELP_LIB) $(BUILD)/libtern.a
	$(SAY) LINK $@
	$(Q)$(LINK) $(call ldflags_of,$(@:$(BUILD)/%=%.c)) -fsanitize=fuzzer $^ -lm -o $@

suites: $(SUITES:%=$(BUILD)/tests/%)
	@:
progs: $(PROGS:%=$(BUILD)/tests/%)
	@:
replays: $(FUZZERS:%=$(BUILD)/tests/replay_%)
	@:

# The whole suite, or the KINDS of tests/run-tests alone. Installs what it lacks, or says what to.
test:
	@tests/need-tools
	+@$(SUBMAKE) all suites progs replays
	@BUILD=$(BUILD) CC="$(CC)" KINDS="$(KINDS)" QUICK="$(QUICK)" tests/run-tests

# What runs without Check, a shell or Python: for cross builds, with EMULATOR.
test-progs:
	+@$(SUBMAKE) progs replays
	@BUILD=$(BUILD) EMULATOR="$(EMULATOR)" KINDS="prog replay" tests/run-tests

# The C suites under the address and undefined-behaviour sanitizers, then the threaded ones under
# the thread sanitizer.
sanitize:
	@tests/need-tools
	+@$(SUBMAKE) BUILD=build-asan EXTRA="$(EXTRA) -fsanitize=address,undefined \
		-fno-sanitize-recover=all -fno-omit-frame-pointer" CFLAGS="-O1 -g" test-sanitized
	+@$(SUBMAKE) BUILD=build-tsan EXTRA="$(EXTRA) -fsanitize=thread" CFLAGS="-O1 -g" test-threaded

test-sanitized: suites progs replays $(PROGRAMS:%=$(BUILD)/%)
	@BUILD=$(BUILD) QUICK=1 CK_FORK=no KINDS="c prog replay" tests/run-tests

test-threaded: $(THREADED:%=$(BUILD)/tests/%)
	@BUILD=$(BUILD) QUICK=1 CK_FORK=no KINDS=c ONLY="$(THREADED)" tests/run-tests

# Each fuzzer for FUZZ_SECONDS; new inputs go to build-fuzz/corpus, failures stop with their file.
fuzz:
	+@$(SUBMAKE) BUILD=build-fuzz REF_ONLY=1 CC="$(CLANG)" CFLAGS="-O1 -g" EXTRA="$(EXTRA) \
		-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" fuzzers
	@for f in $(FUZZERS); do \
		mkdir -p build-fuzz/corpus/$$f tests/corpus/$$f; \
		build-fuzz/tests/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=30 -rss_limit_mb=512 \
			-verbosity=0 -print_final_stats=1 -artifact_prefix=build-fuzz/ \
			build-fuzz/corpus/$$f tests/corpus/$$f || exit 1; \
	done

fuzzers: $(FUZZERS:%=$(BUILD)/tests/%)

# ---- install --------------------------------------------------------------------------------

# run is installed as `tern`, any other program X as `tern-X`. Folders may have spaces in their names.
IN_BINDIR = "$(DESTDIR)$(BINDIR)/$(patsubst tern-run,tern,tern-$(1))"
IN_LIBDIR = "$(DESTDIR)$(LIBDIR)/$(1)"
IN_MANDIR = "$(DESTDIR)$(MANDIR)/man1/$(notdir $(1))"
HEADER = "$(DESTDIR)$(INCLUDEDIR)/tern.h"

PAGES := $(wildcard src/app/*.1)

install: $(PROGRAMS:%=$(BUILD)/%) lib
	install -d "$(DESTDIR)$(BINDIR)" $(call IN_LIBDIR,pkgconfig) "$(DESTDIR)$(INCLUDEDIR)" $(call IN_MANDIR)
	$(foreach p,$(PROGRAMS),install -m 755 $(BUILD)/$(p) $(call IN_BINDIR,$(p)) &&) true
	install -m 644 include/tern.h $(HEADER)
	install -m 644 $(BUILD)/libtern.a $(call IN_LIBDIR,libtern.a)
	install -m 755 $(BUILD)/libtern.so $(call IN_LIBDIR,libtern.so.$(VERSION))
	ln -sf libtern.so.$(VERSION) $(call IN_LIBDIR,$(SONAME))
	ln -sf $(SONAME) $(call IN_LIBDIR,libtern.so)
	sed -e 's,@PREFIX@,$(PREFIX),;s,@LIBDIR@,$(LIBDIR),;s,@INCLUDEDIR@,$(INCLUDEDIR),' \
		-e 's,@VERSION@,$(VERSION),' src/engine/tern.pc.in > $(call IN_LIBDIR,pkgconfig/tern.pc)
	$(foreach p,$(PAGES),install -m 644 $(p) $(call IN_MANDIR,$(p)) &&) true

uninstall:
	rm -f $(foreach p,$(PROGRAMS),$(call IN_BINDIR,$(p))) $(HEADER) $(call IN_LIBDIR,libtern.a) \
		$(call IN_LIBDIR,libtern.so) $(call IN_LIBDIR,$(SONAME)) \
		$(call IN_LIBDIR,libtern.so.$(VERSION)) $(call IN_LIBDIR,pkgconfig/tern.pc) \
		$(foreach p,$(PAGES),$(call IN_MANDIR,$(p)))

# ---- housekeeping ---------------------------------------------------------------------------

format:
	clang-format -i include/*.h $(wildcard src/*/*.[ch]) $(wildcard tests/*.[ch])

# The longest files and functions, and the size of the programs.
stats:
	@tests/layers.sh --longest
	@size $(wildcard $(PROGRAMS:%=$(BUILD)/%)) 2>/dev/null || true

clean:
	rm -rf build build-* $(PROGRAMS)

help:
	@echo 'make             the programs ($(PROGRAMS)) and the library'
	@echo 'make test        everything that can be tested; installs what it lacks or says so'
	@echo 'make sanitize    the C tests under the address, undefined and thread sanitizers'
	@echo 'make fuzz        each fuzzer for FUZZ_SECONDS=$(FUZZ_SECONDS) (needs clang)'
	@echo 'make test-progs  the tests without Check: for cross builds, with EMULATOR="qemu-aarch64"'
	@echo 'make install     programs, library, header, man pages; PREFIX=$(PREFIX), DESTDIR'
	@echo 'make uninstall   takes away what install put there'
	@echo 'make format      clang-format over all C files'
	@echo 'make stats       the longest files and functions, the size of the programs'
	@echo 'make clean       removes build, build-* and the programs'
	@echo 'Another compiler or target: make CC=aarch64-linux-gnu-gcc BUILD=build-arm'

.PHONY: all lib suites progs replays fuzzers test test-progs test-sanitized test-threaded sanitize \
	fuzz install uninstall format stats clean help FORCE
.SECONDARY:

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
