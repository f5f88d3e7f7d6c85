#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the older version from this repository's history and runs tests/e2e/test_compat.py
# with it:   run.sh BUILD COMMIT [PATTERN]
set -eu
build=$1 previous=$2 only=${3:-compat*}

if ! commit=$(git rev-parse --verify --quiet "$previous^{commit}"); then
    echo "test-compat: this checkout has no commit '$previous'; fetch the whole history" \
         "(git fetch --unshallow) or name another one: make test-compat PREVIOUS=COMMIT" >&2
    exit 2
fi
source=$build/compat/$commit
if [ ! -e "$source/built" ]; then
    rm -rf "$source"
    mkdir -p "$source"
    git archive "$commit" | tar -x -C "$source"
    echo "test-compat: building $commit"
    make -C "$source" O=build CC="${CC:-gcc}" all test-programs >"$source/build.log" 2>&1 || {
        tail -20 "$source/build.log" >&2
        echo "test-compat: $commit cannot be built; see $source/build.log" >&2
        exit 2
    }
    touch "$source/built"
fi
E2E_PREVIOUS=$source/build exec python3 tests/run.py --build "$build" --e2e --only "$only"
