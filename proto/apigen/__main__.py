# SPDX-License-Identifier: Apache-2.0
"""Command line of the generator: `python3 proto/apigen generate --out build/gen`.

generate     write every file that follows from proto/api
lock         enter new calls into proto/wire.lock
show         print the generated pieces of one call
list-manual  print the calls that one side has by hand, with the reason
coverage     write docs/api-coverage.md and print its sums

Standard library only; the same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    __package__ = "apigen"  # pylint: disable=redefined-builtin

# pylint: disable=wrong-import-position
from apigen import abi as abi_reader
from apigen import alias, codec, coverage, declare, dispatch, drv, gentest, guard, lock, negative
from apigen import parse, proc, stub, trace, twin
from apigen.emit import Output
from apigen.model import ApiError

PROTO = Path(__file__).resolve().parent.parent


def make(out: Output) -> codec.Codecs:
    """Generate everything into out."""
    api = parse.load(PROTO / "api")
    codecs = codec.Codecs(api, abi_reader.load(PROTO))
    dispatch.check(codecs)
    lock.check(codecs, PROTO / "wire.lock")
    codec.emit(out, codecs)
    trace.emit(out, api, codecs.abi)
    stub.emit(out, codecs)
    proc.emit(out, api)
    proc.emit_driver(out, api)
    drv.emit(out, api)
    alias.emit_driver(out, codecs)
    twin.emit_driver(out, api)
    dispatch.emit(out, codecs)
    gentest.emit(out, codecs)
    declare.emit(out, codecs)
    negative.emit(out, codecs)
    guard.emit(out, codecs)
    return codecs


def main() -> int:
    """Run one command."""
    p = argparse.ArgumentParser(prog="apigen", description=__doc__)
    p.add_argument(
        "command", choices=("generate", "lock", "show", "list-manual", "coverage")
    )
    p.add_argument("what", nargs="?", default="")
    p.add_argument("--out", type=Path, default=Path("build/gen"))
    p.add_argument("--stub", type=Path, default=Path("client-stub"))
    p.add_argument("--server", type=Path, default=Path("server"))
    p.add_argument("--source", type=Path, default=Path("client-stub"))
    p.add_argument("--doc", type=Path, default=None)
    a = p.parse_args()
    out = Output(a.out)
    if a.command == "lock":
        codecs = codec.Codecs(parse.load(PROTO / "api"), abi_reader.load(PROTO))
        lock.update(codecs, PROTO / "wire.lock")
        return 0
    codecs = make(out)
    if a.command == "generate":
        out.write()
    elif a.command == "show":
        print(coverage.show(out, codecs.api.call(a.what)))
    elif a.command == "list-manual":
        print(coverage.list_manual(codecs.api, a.what, a.source))
    else:
        print(coverage.table(codecs.api, a.stub, a.server, a.doc))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ApiError as e:
        print(f"apigen: {e}", file=sys.stderr)
        sys.exit(1)
