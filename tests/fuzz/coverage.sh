#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the corpora of fuzz targets cover: coverage.sh BUILD FUZZ LLVM-SUFFIX TARGET...
# BUILD holds the targets built for coverage, FUZZ the corpora of earlier runs.  One line
# for each target; the status says whether any is below tests/fuzz/floors.txt.
set -u
build=$1 fuzz=$2 llvm=$3
shift 3
status=0
for t in "$@"; do
    dirs=
    for d in "$fuzz/corpus-$t" "$fuzz/corpus-quick-$t" "tests/fuzz/seeds-$t" tests/fuzz/seeds; do
        [ ! -d "$d" ] || dirs="$dirs $d"
    done
    [ "$t" != fuzz_worker ] || dirs="$dirs tests/fuzz/seeds-worker"
    # shellcheck disable=SC2086
    ASAN_OPTIONS=detect_leaks=0 LLVM_PROFILE_FILE="$build/$t.raw" "$build/fuzz/$t" -runs=0 \
        -detect_leaks=0 -verbosity=0 $dirs >/dev/null 2>&1 || { echo "$t: it failed"; exit 1; }
    "llvm-profdata$llvm" merge -o "$build/$t.prof" "$build/$t.raw" || exit 1
    sources=$(awk -v t="$t" '!/^#/ && index("," $3 ",", "," t ",") {print $1}' \
        tests/fuzz/targets.txt | sort -u)
    # shellcheck disable=SC2086
    "llvm-cov$llvm" report -instr-profile="$build/$t.prof" "$build/fuzz/$t" $sources \
        >"$build/$t.txt" || exit 1
    awk -v t="$t" -v floors=tests/fuzz/floors.txt '
        BEGIN {
            while ((getline line < floors) > 0) {
                split(line, f)
                if (f[1] == t) { lines = f[2]; branches = f[3]; known = 1 }
            }
        }
        $1 == "TOTAL" {
            low = !known || $10 + 0 < lines + 0 || $13 + 0 < branches + 0
            print t ": lines " $10 ", functions " $7 ", branches " $13 \
                (!known ? ": not in " floors : low ? ": below " lines " and " branches : "")
        }
        END { exit low }' "$build/$t.txt" || status=1
done
exit $status
