#!/usr/bin/env bash
# What the library shows and needs, read from the build in $BUILD: the shared library exports tern_*
# and nothing else; from the mathematics library only fmaf and sqrtf are used, which are correctly
# rounded; programs need no other library; `run` stays small. Ends with "N passed, N failed".
set -u
# shellcheck source=tests/support/rules.sh
. "$(dirname "$0")/support/rules.sh"
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build} CC=${CC:-cc}
export LC_ALL=C
so=$BUILD/libtern.so
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

[ -f "$so" ] || { echo "$so is not built"; exit 1; }

nm -D --defined-only "$so" | awk '{print $3}' | sort >"$tmp/exports"
grep -v '^tern_' "$tmp/exports" | rule "exported beside tern_*"

# Every function that a public header declares is there.
for header in include/*.h; do
    sed -n '/^#ifndef TERN_/,$p' "$header" | sed '/^#ifdef TERN_MPI/,/^#endif/d' | grep -oE '\btern_[a-z_]+\(' | tr -d '(' | sort -u |
        comm -23 - "$tmp/exports" | rule "declared in $header, not exported"
done

# Undefined names that libm has and libc has not (some names of old are in both).
names() { nm -D --defined-only "$1" 2>/dev/null | awk '{print $3}' | sed 's/@.*//' | sort -u; }
libm=$("$CC" -print-file-name=libm.so.6) libc=$("$CC" -print-file-name=libc.so.6)
comm -23 <(names "$libm") <(names "$libc") >"$tmp/libm"
grep -qx expf "$tmp/libm" || { echo "cannot list the names of libm ($libm)"; exit 1; }
for file in "$BUILD/libtern.a" "$so"; do
    nm -u "$file" 2>/dev/null | awk '$1 == "U" {print $2}' | sed 's/@.*//' | sort -u |
        comm -12 - "$tmp/libm" | grep -vxE 'fmaf|sqrtf' | rule "used of libm by $file"
done

# serve alone has two more.
needed() { readelf -d "$1" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
for file in "$so" $(for p in src/app/*/main_*.c; do p=${p##*main_}; echo "$BUILD/${p%.c}"; done); do
    [ -f "$file" ] || continue
    more=
    [ "${file##*/}" = serve ] && more='|libmicrohttpd|libjansson'
    needed "$file" | grep -vE "^(libc|libm|libpthread|ld-linux.*$more)\.so\.[0-9]+$" |
        rule "needed by $file"
done

# As gcc makes it for x86 by default, with the symbols of a debugger left out
most=823296
if grep -qs -- ' -Oz ' "$BUILD/flags" && "$CC" -dumpmachine | grep -q ^x86_64 && ! "$CC" --version | grep -q clang; then
    strip -o "$tmp/run" "$BUILD/run"
    bytes=$(wc -c <"$tmp/run")
    [ "$bytes" -le "$most" ] || echo "$bytes bytes" | rule "run is larger than $most"
fi

readelf -d "$so" | grep -q 'SONAME.*\[libtern\.so\.[0-9]*\]' || echo "$so" | rule "no SONAME"

finish
