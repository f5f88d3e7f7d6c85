# SPDX-License-Identifier: Apache-2.0
"""Pools that the user knows by name: `gpupool context`, --context, GPUPOOL_CONTEXT."""

import json


def two_pools(case):
    """A pool of `gpupool up`, another one elsewhere, and what a user knows of that."""
    here = case.pool(servers=1, cards=1)
    run_dir = case.folder / "there"
    there = case.pool(servers=1, cards=1, env={"GPUPOOL_RUN_DIR": run_dir})
    lines = (run_dir / "pool").read_text(encoding="utf-8").splitlines()
    address = next(line.split()[1] for line in lines if line.startswith("scheduler "))
    return here, there, ["--scheduler", address, "--token-file", run_dir / "pool.d/client-token"]


def key(case, *args, **env):
    """Which pool answers: the id of its scheduler's key."""
    out = case.run([case.build / "bin" / "gpupool", "status", "--json", *args], env=env).out
    return json.loads(out)["key_id"]


def test_context_says_which_pool_is_meant(case):
    here, there, place = two_pools(case)
    local, other = here.status()["key_id"], there.status()["key_id"]
    case.check(local != other, "two pools")
    here.cli("context", "set", "lab", *place)
    case.equal(key(case), local, "before it is used")
    case.equal(key(case, "--context", "lab"), other, "--context")
    case.equal(key(case, GPUPOOL_CONTEXT="lab"), other, "GPUPOOL_CONTEXT")
    here.cli("context", "use", "lab")
    case.equal(key(case), other, "the current one")
    case.equal(key(case, "--context", "local"), local, "local")
    done = here.run("sh", "-c", "cat $GPUPOOL_SESSION_FILE", memory="64MiB")
    case.contains(done.out, there.status()["servers"][0]["endpoint"], "where run went")
    listed = here.cli("context", "list").out
    case.contains(listed, f"*  lab      {place[1]}", "list")
    case.equal(here.cli("complete", "contexts").out.split(), ["local", "lab"], "complete")
    done = here.cli("context", "delete", "lab", status=1)
    case.contains(done.err, "context lab is in use", "delete of the current one")
    here.cli("context", "use", "local")
    case.equal(key(case), local, "local again")
    here.cli("context", "delete", "lab")
    case.check("lab" not in here.cli("context", "list").out, "it is gone")
    for verb in ("use", "delete"):
        case.contains(here.cli("context", verb, "lab", status=2).err, "context: no context lab; ", verb)
    case.contains(here.cli("context", "delete", "local", status=2).err, "local cannot be deleted",
                  "delete of what is built in")


def test_context_of_one_pool_lends_its_token_to_no_other(case):
    """A scheduler that is named is another pool's: the current context's token stays here."""
    here, _, place = two_pools(case)
    here.cli("context", "set", "lab", *place)
    here.cli("context", "use", "lab")
    done = here.cli("status", "--scheduler", place[1], status=3)
    case.contains(done.err, "token", "why")


def test_errors_of_a_context_name_file_and_line(case):
    gpupool = case.build / "bin" / "gpupool"
    folder = case.folder / "config" / "gpupool" / "contexts"
    folder.mkdir(parents=True)
    (folder / "a.conf").write_text("# mine\nscheduler = h:1\ntoken-fil = x\n", encoding="utf-8")
    (folder / "b.conf").write_text("token-file = x\n", encoding="utf-8")
    for args, words in (
            (("status", "--context", "a"),
             f"{folder}/a.conf:3: unknown option --token-fil; did you mean --token-file?"),
            (("status", "--context", "b"), f"{folder}/b.conf: no line says `scheduler = HOST:PORT`"),
            (("status", "--context", "c"), "no context c; `gpupool context list`"),
            (("status", "--context", "../c"), "letters, digits and ._- only"),
            (("status", "--context", "a", "--scheduler", "h:1"), "both name a pool"),
            (("context", "use", "c"), "no context c"),
            (("context", "set", "c"), "which pool? --scheduler"),
            (("context", "set", "local", "--scheduler", "h:1"), "local is the pool of"),
            (("context", "set", "c", "--scheduler", "h:1#2"), "has a #"),
            (("context", "set"), "list, use NAME, set NAME or delete NAME is wanted"),
            (("context",), "list, use NAME")):
        case.contains(case.run([gpupool, *args], status=2).err, words, f"{args}")
    done = case.run([gpupool, "context", "list"])
    case.contains(done.out, "a.conf:3", "list shows what is wrong")
