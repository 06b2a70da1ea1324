# tern. `make` builds run and quantize; `make help` lists the rest.
#
# CC, CFLAGS, LDFLAGS, PREFIX and DESTDIR are honoured. BUILD names the folder of the objects, so
# that several builds (compilers, sanitizers, targets) can live side by side.
#
# A file of src/kernels named <arch>_<isa>.c is built only for that architecture, with the flags
# that its first line states as `/* cflags: ... */`. Nothing else knows a target's flags.

CC ?= cc
AR ?= ar
CFLAGS ?= -O3 -g
BUILD ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man

# After the user's flags, because exactness depends on them (README, "Exact").
STRICT := -std=c11 -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc -fPIC -pthread \
	-fvisibility=hidden -ffp-contract=off -fno-fast-math -fno-unsafe-math-optimizations \
	-fno-math-errno -fno-trapping-math
WARN := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith

ARCH := $(shell $(CC) -dumpmachine | sed -e 's/^x86_64.*/x86/;s/^i[3-6]86.*/x86/;s/^aarch64.*/arm/;s/^arm64.*/arm/;s/-.*//')

LIB_SRC := $(filter-out src/kernels/x86_%.c src/kernels/arm_%.c,\
	$(wildcard src/base/*.c src/kernels/*.c src/model/*.c src/text/*.c src/engine/*.c)) \
	$(wildcard src/kernels/$(ARCH)_*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
PROGRAMS := $(patsubst src/app/main_%.c,%,$(wildcard src/app/main_*.c))
APP_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/app/main_%.c,$(wildcard src/app/*.c)))

all: $(PROGRAMS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(STRICT) $(WARN) $(EXTRA) $(shell sed -n '1s,^/\* cflags: \(.*\) \*/.*,\1,p' $<) -MMD -MP -c $< -o $@

$(BUILD)/libtern.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(PROGRAMS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/src/app/main_%.o $(APP_OBJ) $(BUILD)/libtern.a
	$(CC) $(CFLAGS) $(EXTRA) -pthread $(LDFLAGS) $^ -lm -o $@

$(PROGRAMS): %: $(BUILD)/%
	@cp -f $< $@

clean:
	rm -rf build build-* $(PROGRAMS)

.PHONY: all clean
.SECONDARY:

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
