#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# afl.sh BUILD CORPORA SECONDS TARGET...: AFL++ on targets that were built with its
# compiler into BUILD/fuzz, from the kept seeds and the corpora that `make fuzz` left in
# CORPORA; what it finds stays in BUILD/afl/TARGET and is where it goes on the next time.
# One line for each target; exit status 1 after a crash or a hang, or if a target did not
# run, which does not keep the others from running.
set -eu
build=$1 corpora=$2 seconds=$3
shift 3

export AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_AUTORESUME=1
export AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_FORKSRV_INIT_TMOUT=60000
export ASAN_OPTIONS=abort_on_error=1:symbolize=0:detect_leaks=0

# AFL++ refuses a folder without inputs, and slows down over large ones.
gather() {
    mkdir -p "$2"
    for folder in "$corpora/corpus-$1" "tests/fuzz/seeds-$1" "tests/fuzz/seeds" \
        "$([ "$1" != fuzz_worker ] || echo tests/fuzz/seeds-worker)"; do
        [ -d "$folder" ] || continue
        find "$folder" -type f -size -9k | sort | head -200 | while read -r file; do
            cp -n "$file" "$2/$(sha256sum <"$file" | cut -c1-16)"
        done
    done
    [ -n "$(ls "$2")" ] || printf '0' >"$2/one"
}

stat_of() { sed -n "s/^$2 *: //p" "$1/default/fuzzer_stats"; }

bad=0
for target in "$@"; do
    in=$build/afl/in-$target out=$build/afl/$target
    gather "$target" "$in"
    mkdir -p "$out"
    if ! afl-fuzz -V "$seconds" -t 2000+ -m none -i "$in" -o "$out" -- \
        "$build/fuzz/$target" >"$out/log" 2>&1; then
        tail -20 "$out/log"
        echo "$target: afl-fuzz did not run it"
        bad=1
        continue
    fi
    crashes=$(stat_of "$out" saved_crashes) hangs=$(stat_of "$out" saved_hangs)
    echo "$target: $(stat_of "$out" execs_done) executions, $(stat_of "$out" corpus_count)" \
        "inputs, $(stat_of "$out" bitmap_cvg) of edges, $crashes crashes, $hangs hangs"
    [ "$crashes$hangs" = 00 ] || { bad=1; echo "  see $out/default"; }
done
exit $bad
