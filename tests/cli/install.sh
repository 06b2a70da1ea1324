#!/usr/bin/env bash
# Installs into an empty folder (with spaces in its name). Builds the examples of the public headers
# there with the flags that pkg-config gives, against the shared and the static library, and includes
# the headers in C++. Runs the examples, uninstalls, and finds nothing left.
# Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
dest="$tmp/dest dir" prefix="/opt/my tern"
passed=0 failed=0

# check NAME COMMAND...: passes when the command does.
check() {
    local name=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then passed=$((passed + 1)); return; fi
    failed=$((failed + 1))
    echo "$name: failed: $*"
    cat "$tmp/log"
}

# check_output NAME TEXT STATUS COMMAND...: the command ends with STATUS and prints TEXT somewhere.
check_output() {
    local name=$1 text=$2 status=$3
    shift 3
    "$@" >"$tmp/out" 2>&1
    check "$name" test $? = "$status"
    check "$name" grep -qF -- "$text" "$tmp/out"
}

build_as() { # the flags of the build that is being tested, so that nothing is built anew
    "$MAKE" --no-print-directory "$@" BUILD="$BUILD" CC="$CC" PREFIX="$prefix" DESTDIR="$dest"
}

pc() {
    PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_LIBDIR=$dest$prefix/lib/pkgconfig pkg-config "$@"
}

check_output install ldconfig 0 build_as install
for file in bin/tern include/tern.h include/tern_lab.h lib/libtern.a lib/libtern.so lib/libtern.so.0 \
    lib/pkgconfig/tern.pc share/man/man1/tern.1 \
    bin/tern-bench share/man/man1/tern-bench.1 bin/tern-quantize share/man/man1/tern-quantize.1 bin/tern-look share/man/man1/tern-look.1; do
    check installed test -s "$dest$prefix/$file"
done
check "pc version" test "$(pc --modversion tern)" = \
    "$(sed -n 's/^#define TERN_VERSION "\(.*\)"/\1/p' include/tern.h)"

# Each header names its example.
eval "flags=($(pc --cflags --libs tern)) static=($(pc --static --cflags --libs tern))"
export LD_LIBRARY_PATH=$dest$prefix/lib
for header in tern tern_lab; do
    example=$tmp/$header source=include/example${header#tern}.c
    check "$header: example named" grep -qF "$source is a complete program" "include/$header.h"
    check "$header: shared" "$CC" -std=c11 -Wall -Wextra -Werror "$source" -o "$example.shared" \
        "${flags[@]}"
    check "$header: static" "$CC" -std=c11 -Wall -Wextra -Werror -static "$source" \
        -o "$example.static" "${static[@]}"
    for program in "$example.shared" "$example.static"; do
        check_output "without a model" "usage: example MODEL" 0 "$program"
        check_output "missing model" "no-such-model.bin" 4 "$program" "$tmp/no-such-model.bin"
        [ -f models/fable.bin ] || continue
        "$program" models/fable.bin >"$program.text" 2>"$tmp/log"
        check "$header: runs the model" test $? = 0
        check "$header: prints a text" test "$(wc -c <"$program.text")" -gt 20
    done
    [ ! -f models/fable.bin ] || check "same text" cmp "$example.shared.text" "$example.static.text"
done
echo '#include <tern_lab.h>
      int main() { return tern_model_open == 0 || tern_observe == 0; }' >"$tmp/plus.cc"
if command -v c++ >/dev/null; then
    check "C++" c++ -Wall -Wextra -pedantic "$tmp/plus.cc" -o "$tmp/plus" "${flags[@]}"
fi
check_output "installed program" "tern" 0 "$dest$prefix/bin/tern" --version

check "nothing beside it" test ! -e dir
check uninstall build_as uninstall
check "nothing left" test -z "$(find "$dest" ! -type d)"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
