#!/usr/bin/env bash
# Holds the sources to the project's rules: rooms, names, words, the one page, lengths. Prints each
# violation as FILE:LINE: REASON; ends with "N passed, N failed", one per rule. `--longest` lists the
# longest files and functions instead. Any other first argument is the root to look at.
set -u
# shellcheck source=tests/support/rules.sh
. "$(dirname "$0")/support/rules.sh"
[ "${1:-}" = --longest ] || cd "${1:-$(dirname "$0")/..}" || exit 2

rooms="base kernels weights model text sample quantize engine app"
max_function=80
shopt -s nullglob
sources=(include/*.h src/*/*.[ch] src/*/*/*.[ch] src/*/*/*/*.[ch])

# The code of C files without comments and the contents of strings, as FILE:LINE:CODE.
code() {
    awk '
        FNR == 1 { inside = 0 }
        {
            gsub(/\\["\\]/, ""); gsub(/"[^"]*"/, "\"\""); sub(/\/\/.*/, "")
            line = ""
            while (length($0)) {
                at = index($0, inside ? "*/" : "/*")
                if (!at) { if (!inside) line = line $0; break }
                if (!inside) line = line substr($0, 1, at - 1)
                $0 = substr($0, at + 2)
                inside = !inside
            }
            if (line ~ /[^ ]/) print FILENAME ":" FNR ":" line
        }' "$@" </dev/null
}

# FILE:LINE of lines whose code has one of the words $1 (an extended regular expression).
words() {
    local pattern=$1
    shift
    [ $# -gt 0 ] && code "$@" | grep -E "^[^:]*:[0-9]+:(.*[^A-Za-z0-9_])?($pattern)" |
        sed -E 's/^([^:]*:[0-9]+):.*/\1/'
}

# Function lengths as LINES FILE:LINE NAME: from the line that names it to the closing brace.
functions() {
    awk '
        FNR == 1 { head = 0 }
        /^[A-Za-z_].*\(/ { head = FNR; name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
        /^}/ { if (head) print FNR - head + 1, FILENAME ":" head, name; head = 0 }
        /^[^ {}].*;$/ { head = 0 }' "$@" </dev/null
}

# The text of function $1 of file $2, as FILE:LINE:CODE without comments.
body() {
    code "$2" | awk -v name="$1" -F: '
        { text = $0; sub(/^[^:]*:[^:]*:/, "", text) }
        text ~ "^[a-z].*[ *]" name "\\(" { on = 1 }
        on { print }
        on && text ~ /^}/ { exit }'
}

if [ "${1:-}" = --longest ]; then
    cd "$(dirname "$0")/.." || exit 2
    sources=(include/*.h src/*/*.[ch] src/*/*/*.[ch] src/*/*/*/*.[ch])
    echo "longest files"
    wc -l "${sources[@]}" | grep -v total | sort -rn | head -n 10
    echo "longest functions"
    functions "${sources[@]}" | sort -rn | head -n 10
    exit 0
fi

# ---- rooms: a file includes its own room and those to its left ----------------------------------
# A program includes the public headers, its own folder with those in it, and src/app/cli.

for file in "${sources[@]}"; do
    own=${file#src/} own=${own%%/*} folder=$own
    [ "$own" = app ] && folder=${file#src/app/} && folder=app/${folder%%/*}
    allowed=" "
    for room in $rooms; do
        allowed+="$room "
        [ "$room" = "$own" ] && break
    done
    [ "$own" = app ] && allowed=" $folder app/cli "
    grep -nE '^ *# *include *"' "$file" | while IFS= read -r line; do
        path=${line#*\"} path=${path%%\"*}
        case $path in tern.h | tern_lab.h) continue ;; esac
        from=${path%/*}
        case $from in app/*) from=${from#app/} from=app/${from%%/*} ;; *) from=${path%%/*} ;; esac
        case "$allowed" in
        *" $from "*) [ "$path" != "${path%%/*}" ] && [ -f "src/$path" ] && continue ;;
        esac
        echo "$file:${line%%:*}: includes \"$path\""
    done
done | rule "not a room at or left of its own"

# ---- names: a file's base name, without its ending, stands in one folder only --------------------

printf '%s\n' "${sources[@]}" | sed -E 's,^(.*)/([^/]*)\.[ch]$,\2 \1,' | sort -u |
    awk '{ if ($1 == last) print folder "/" $1 ", " $2 "/" $1; last = $1; folder = $2 }' |
    rule "two files of one name"

# ---- names: a struct's name stands for one thing -------------------------------------------------

grep -nE '^(static )?(const )?struct [a-z0-9_]+ \{' "${sources[@]}" |
    sed -E 's/^([^:]*:[0-9]+):.*struct ([a-z0-9_]+) .*/\2 \1/' | sort |
    awk '{ if ($1 == last) print where ", " $2; last = $1; where = $2 }' |
    rule "two structs of one name"

# ---- words ---------------------------------------------------------------------------------------

library=() not_pool=()
for file in "${sources[@]}"; do
    case $file in src/app/*) ;; *) library+=("$file") ;; esac
    case $file in src/base/thread.[ch] | src/base/pool.c | src/base/lock.c | src/base/relay.c | src/base/ticker.c | src/app/serve/*) ;; *) not_pool+=("$file") ;; esac
done

words '(strcpy|strcat|v?sprintf|ato[ifl]|atoll|strtok|gets|alloca|strto[dflu]+|scanf|sscanf) *\(' \
    "${sources[@]}" | rule "a banned function"
words '(printf|fprintf|vprintf|puts|fputs|putchar|perror|exit|_exit|abort) *\(|stdout|stderr' \
    "${library[@]}" | rule "the library does not print or exit"
words 'pthread_[a-z_]+|pthread\.h|threads\.h|futex|SYS_futex|omp_[a-z_]+' "${not_pool[@]}" |
    rule "only base/thread.c, pool.c, lock.c, relay.c, ticker.c and serve know threads"

# ---- the one page: forward_layer() and forward_run() read as equations -----------------------------------

page=src/model/forward.c
if [ -f $page ]; then
    { body forward_layer $page; body forward_run $page; } |
        grep -iE '# *if|pool|thread|(^|[^a-z])(f16|bf16|f32|q8|q4)|simd|avx|neon|__m[0-9]|TERN_[FBQ]' |
        sed -E 's/^([^:]*:[0-9]+):.*/\1/' | rule "forward_layer() and forward_run() know no #if, thread or format"
    [ -n "$(body forward_layer $page)" ] || echo "$page:1" | rule "forward_layer() is missing"
fi

# ---- shape ---------------------------------------------------------------------------------------

functions "${sources[@]}" | while read -r n where name; do
    [ "$n" -le $max_function ] || echo "$where: $name has $n lines"
done | rule "longer than $max_function lines"

for file in "${sources[@]}"; do
    head -n 2 "$file" | grep -qE '^/\* [^c]|^/\* c[^f]' || echo "$file:1"
done | rule "does not open with what it is for"

grep -nE '	| +$' "${sources[@]}" | sed -E 's/^([^:]*:[0-9]+):.*/\1/' | rule "tab or blank at the end"

finish
