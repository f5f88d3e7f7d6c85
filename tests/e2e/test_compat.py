# SPDX-License-Identifier: Apache-2.0
"""This version and an older one in one pool: a client of either works with servers and a
scheduler of the other.  `make test-compat` builds the older one."""

import os
from pathlib import Path

# Programs of the OLDER version: they promise what both versions keep, and check it.
PROGRAMS = ("vecadd", "matmul-shared", "reduce-shared", "histogram-shared", "pipeline-shared",
            "managed-shared", "graphs", "nodes", "hostfuncs", "hostnodes", "copies", "order",
            "textures", "threads", "clusters", "conditions", "linking")
NOT_SUPPORTED = 801
# Of these it is the version of the server: they hold its software card to what that answers.
OF_THE_CARD = ("textures", "conditions", "linking")


def previous(case):
    folder = os.environ.get("E2E_PREVIOUS")
    if not folder:
        case.skip("an older version is needed: `make test-compat` builds one")
    return Path(folder).resolve()


def as_on_another_machine(case):
    """What finds the pool without its folder, whose files only its own version reads."""
    folder = case.folder / "gpupool" / "pool.d"
    return {"GPUPOOL_SCHEDULER": (folder / "scheduler.ready").read_text().strip(),
            "GPUPOOL_TOKEN_FILE": str(folder / "client-token"),
            "GPUPOOL_RUN_DIR": str(case.folder / "elsewhere")}


def run_programs(case, client, pool, older, server, transport, extra=None):
    """Every program on the stub and the command line of the build @client; @server is the
    pool's."""
    env = {**pool.env, **(extra or {}), "GPUPOOL_TRANSPORT": transport}
    env["PATH"] = f"{client}/bin:{case.environment()['PATH']}"
    failed = []
    ran = 0
    for name in PROGRAMS:
        program = (server if name in OF_THE_CARD else older) / "tests" / "programs" / name
        if not program.exists():
            continue
        done = case.run([client / "bin" / "gpupool", "run", "--core", "50", "--memory", "1GiB",
                         "--", program], env=env, status=None)
        ran += 1
        if done.status != 0:
            failed.append(f"{name}: exit status {done.status}: {done.err[-300:]}")
    case.check(ran > 8, f"only {ran} programs were there")
    case.equal(failed, [], f"programs that failed over {transport}")


def client_of_before_with_servers_of_now(case, transport):
    older = previous(case)
    pool = case.pool(servers=1, cards=1)
    # An older command line asks for tickets that are not bound to it.
    pool.restart(pool.pid("gpupool-server"), "--allow-unbound-tickets")
    run_programs(case, older, pool, older, case.build, transport, as_on_another_machine(case))


def client_of_now_with_servers_of_before(case, transport):
    older = previous(case)
    now, case.build = case.build, older
    pool = case.pool(servers=1, cards=1)
    case.build = now
    # To a version from before TLS, clear text is the user's choice; without it the refusal
    # names the choice.
    asked = case.run([now / "bin" / "gpupool", "status"], env=pool.env, status=None)
    clear = {}
    if asked.status != 0:
        case.equal(asked.status, 4, "exit status of a refusal")
        case.contains(asked.err, "GPUPOOL_TLS=off", "the remedy")
        clear = {"GPUPOOL_TLS": "off"}
    run_programs(case, now, pool, older, older, transport, clear)
    long_lists_of_graphs(case, now, pool, older, {**clear, "GPUPOOL_TRANSPORT": transport})


def long_lists_of_graphs(case, now, pool, server, env):
    """Workers that do not know gp_graph_list, or gp_graph_nodes, refuse lists that no frame
    holds, and nothing else: a short list with much room is as complete as from this version's."""
    program = now / "tests" / "programs" / "listings"
    done = case.run([now / "bin" / "gpupool", "run", "--core", "50", "--memory", "1GiB", "--",
                     program], env={**pool.env, **env}, status=None)
    worker = (server / "bin" / "gpupool-worker").read_bytes()
    refused = 4 * (b"graph-lists" not in worker) + 4 * (b"graph-nodes" not in worker)
    if not refused:
        case.equal(done.status, 0, f"exit status: {done}")
        return
    lines = done.out.splitlines()
    errors = [line for line in lines if not line.endswith((": ok", ": WRONG"))]
    case.contains(lines, "a large graph: ok", "what makes the graph")
    case.equal([line for line in errors if not line.endswith(f": {NOT_SUPPORTED}")], [],
               "other errors than that of a list that no frame holds")
    case.equal(len(errors), refused, f"refused lists: {done}")


def test_older_client_works_with_this_server_over_tcp(case):
    client_of_before_with_servers_of_now(case, "tcp")


def test_older_client_works_with_this_server_over_shared_memory(case):
    client_of_before_with_servers_of_now(case, "shm")


def test_this_client_works_with_an_older_server_over_tcp(case):
    client_of_now_with_servers_of_before(case, "tcp")


def test_this_client_works_with_an_older_server_over_shared_memory(case):
    client_of_now_with_servers_of_before(case, "shm")
