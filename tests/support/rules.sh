# shellcheck shell=bash
# For scripts that hold files to rules: source this, pipe the violations of each rule into `rule`,
# and end with `finish`, which says "N passed, N failed", one per rule.
shopt -s lastpipe # the last part of a pipe is this shell: rule counts
passed=0 failed=0

# rule REASON: reads violations from standard input, one a line; prints each as VIOLATION: REASON.
rule() {
    local found
    found=$(cat)
    if [ -z "$found" ]; then passed=$((passed + 1)); return; fi
    failed=$((failed + 1))
    found+=$'\n'
    printf '%s' "${found//$'\n'/: $1$'\n'}"
}

# Fails when a rule was violated.
finish() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}
