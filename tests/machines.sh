#!/usr/bin/env bash
# run-tests: long
# Several machines: processes that mpirun starts here give the bits of one, whatever their number, their
# threads, their targets and their shares. LONG_MACHINES=1 runs all golden models on any number; else numbers
# above 3 get a fifth. A random sequence of calls (SEED) gives the same on 1 and on 3.
set -u
cd "$(dirname "$0")/.."
mpi=${MACHINES:-${BUILD:-build}-mpi} mpirun=${MPIRUN:-mpirun}
for program in machines_golden machines_calls machines_limits; do
    [ -x "$mpi/tests/$program" ] && command -v "$mpirun" >/dev/null && continue
    echo "skipped: MPI is not here (apt-get install libopenmpi-dev openmpi-bin)"
    exit 77
done
# More processes than processors, and as root: Open MPI wants to be told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
timeout 60 "$mpirun" -n 2 true || { echo "skipped: $mpirun starts nothing here"; exit 77; }
bad=0
other=plain # a target that every processor here has beside plain
for target in avx2 neon; do
    "$mpi/run" models/fable.bin x -n 1 -q --cpu $target >/dev/null 2>&1 && other=$target
done

# on N COMMAND...
on() {
    local n=$1
    shift
    echo "$n machines: ${*##*/}"
    "$mpirun" -n "$n" "$@" || bad=1
}

on 2 "$mpi/tests/machines_limits"
golden=$mpi/tests/machines_golden
[ -z "${LONG_MACHINES:-}" ] || unset QUICK
on 2 "$golden" 1 best plain
export PARTS=1 # each has its part of the file alone
on 3 "$golden" 1 plain best "$other" --share 3,2,1
unset PARTS
[ -n "${LONG_MACHINES:-}" ] || export QUICK=1
on 1 "$golden" 2 best
on 4 "$golden" 2 best
on 5 "$golden" 1 "$other" plain best --share 1,7,0,2,3
[ -z "${LONG_MACHINES:-}" ] || on 6 "$golden" 1 best
on 7 "$golden" 1 plain best
# same PROGRAM...: what it prints on 3 is what it prints on 1
same() {
    for n in 1 3; do
        on "$n" "$@" >"$tmp/$n"
        cat "$tmp/$n"
        sed -i 1d "$tmp/$n"
    done
    [ -s "$tmp/1" ] || bad=1
    diff "$tmp/1" "$tmp/3" || bad=1
}
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
same "$mpi/tests/machines_calls" "${SEED:-1}" ${LONG_MACHINES:+200}
exit $bad
