#!/usr/bin/env bash
# Holds the texts to what they promise: README.md has at most 1500 words; every file, link and make
# target that a text names exists; src/README.md answers twenty questions. Prints each violation as
# FILE: WHAT: REASON; ends with "N passed, N failed", one per rule. A first argument is the root to
# look at.
set -u
# shellcheck source=tests/support/rules.sh
. "$(dirname "$0")/support/rules.sh"
cd "${1:-$(dirname "$0")/..}" || exit 2
shopt -s nullglob

max_words=1500
texts=(README.md */README.md src/*/*.md tests/*/*/README.md)
targets=$(make -s help | sed -nE 's/^make ([a-z-]+).*/\1/p'; sed -nE 's/^([a-z-]+):.*/\1/p' Makefile)

# What a text has between backquotes and in blocks of code, a piece a line.
code() {
    awk '
        function flush(  n, part, i) {
            n = split(text, part, "`")
            for (i = 2; i <= n; i += 2) print part[i]
            text = ""
        }
        /^ *```/ { flush(); inside = !inside; next }
        inside { print; next }
        /^ *$/ { flush() }
        { text = text " " $0 }
        END { flush() }' "$1"
}

# exists TEXT NAME: from the root, from the folder of the text, or, of a name without a folder,
# anywhere. Names may have wildcards.
exists() {
    compgen -G "$2" >/dev/null || compgen -G "${1%/*}/$2" >/dev/null && return
    case $2 in
    */*) return 1 ;;
    esac
    [ -n "$(find src include tools tests models -name "$2" -print -quit)" ]
}

words=$(wc -w <README.md)
{ [ "$words" -le $max_words ] || echo "README.md: $words words"; } | rule "more than $max_words"

# Files: what lies in a folder of ours, and names that end as sources do. Files of other projects,
# and those that a reader makes, are no files of ours.
for text in "${texts[@]}"; do
    code "$text" | tr ' "(),;:=|' '\n' | sed -E 's/[.]+$//' | sort -u | while IFS= read -r name; do
        case $name in
        llama2.c | config*_X.py | modeling_X.py | *'<'* | /*) continue ;;
        build/tests/*) name=tests/*/${name##*/}.c ;;
        src/* | include/* | tools/* | tests/* | models/* | .ci/*) ;;
        *.c | *.h | *.py | *.sh | *.md | tern*.1) ;;
        *) continue ;;
        esac
        exists "$text" "$name" || echo "$text: $name"
    done
done | rule "no such file"

for text in "${texts[@]}"; do
    grep -oE '\]\([^)]+\)' "$text" | sed -E 's/^..//;s/\)$//' | while IFS= read -r link; do
        file=${link%%#*} folder=.
        case $text in */*) folder=${text%/*} ;; esac
        [ -z "$file" ] && file=$text || file=$folder/$file
        [ -e "$file" ] || { echo "$text: $link"; continue; }
        case $link in
        *'#'*) # a heading, written as GitHub writes its anchor
            sed -nE 's/^#+ //p' "$file" | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9_\n-' |
                grep -qxF "${link#*#}" || echo "$text: $link"
            ;;
        esac
    done
done | rule "a link to nothing"

for text in "${texts[@]}"; do
    code "$text" | grep -oE '(^|[^a-z/-])make( +[A-Z_]+=("[^"]*"|[^ ]*))*( +[a-z-]+)+' |
        sed -E 's/.*make//;s/[A-Z_]+=("[^"]*"|[^ ]*)//g' | tr -s ' ' '\n' | sort -u |
        while IFS= read -r target; do
            [ -z "$target" ] || grep -qxF -- "$target" <<<"$targets" || echo "$text: make $target"
        done
done | rule "no such target"

answers=$(sed -n '/^## Twenty questions/,/^## [^T]/p' src/README.md | grep -cE '^\| .*\| `(src|tools)/')
{ [ "$answers" = 20 ] || echo "src/README.md: $answers answers"; } | rule "not twenty"

finish
