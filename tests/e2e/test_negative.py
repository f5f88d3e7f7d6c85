# SPDX-License-Identifier: Apache-2.0
"""Every driver call with NULL, stale and foreign handles and absurd numbers."""

from test_programs import local_driver


def test_wrong_arguments_are_refused_and_harm_nobody(case):
    pool = case.pool()
    bystander = pool.session(core=30, memory="64MiB").cudash().begin()
    slot = bystander.ok("alloc", 4096)
    done = pool.run(case.build / "tests" / "programs" / "negative", status=None)
    case.equal((done.status, done.out.strip().split("\n")[-1].split(", ")[-1]),
               (0, "0 took wrong arguments"), f"the program's outcome:\n{done.out}")
    bystander.ok("free", slot)


# ------------------------------------------------ the same results as on the driver itself

def results(case, done):
    """(call, kind) -> (its result, that of the next synchronisation)."""
    found = {}
    for line in done.out.splitlines():
        words = line.split()
        case.check("crashes" not in line and "hangs" not in line, line)
        if len(words) == 4 and words[1][0].isdigit() and words[1].endswith(":"):
            found[words[0], int(words[1][:-1])] = (int(words[2]), int(words[3]))
    return found


def test_wrong_arguments_get_the_error_that_the_driver_gives(case):
    program = case.build / "tests" / "programs" / "negative"
    env = {**local_driver(case), "CUDA_VISIBLE_DEVICES": "0"}
    local = results(case, case.run([program, "list"], env=env, status=None))
    # The whole card, so that it has the same size.
    remote = results(case, case.pool().run(program, "list", core=100, memory=None, status=None))
    case.check(len(local) > 3000, f"only {len(local)} results of the driver itself")
    case.equal([key for key in local if key not in remote], [], "calls missing remotely")
    wrong = [f"{name} with kind {kind}: {here} locally, {remote[name, kind]} remotely"
             for (name, kind), here in local.items() if remote[name, kind] != here]
    case.equal(wrong, [], "results that differ")
