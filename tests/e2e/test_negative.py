# SPDX-License-Identifier: Apache-2.0
"""Every driver call with NULL, stale and foreign handles and absurd numbers."""

from test_programs import local_driver


def test_wrong_arguments_are_refused_and_harm_nobody(case):
    pool = case.pool()
    bystander = pool.session(core=30, memory="64MiB").cudash().begin()
    slot = bystander.ok("alloc", 4096)
    done = pool.run(case.build / "tests" / "programs" / "negative", status=None)
    case.equal((done.status, done.out.strip().split("\n")[-1].split(", ")[-1]),
               (0, "0 took wrong arguments"), f"the program's verdict:\n{done.out}")
    bystander.ok("free", slot)


# ------------------------------------------------ the same results as on the driver itself

FREED, HOST = 2, 3  # kinds of wrongness, as negative_calls.h numbers them


def deferred(_name, _kind, local, remote, posted):
    """A call without an answer: the same error, at the next call that has one."""
    return posted and local[0] != 0 and remote == (0, local[0])


def of_the_host(_name, kind, local, remote, _posted):
    """An address of registered host memory as a device address: a card beside that memory
    takes it, one on another machine (which says so: attribute
    CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0) does not."""
    return kind == HOST and local == (0, 0) and remote == (1, 0)


def freed_is_no_memory(name, kind, local, remote, _posted):
    """cuMemcpy, which goes by the address alone, between freed device memory: beside the
    card such an address may be the host's by now; here it is kept out of the host's way."""
    return (name in ("cuMemcpy", "cuMemcpy_ptds") and kind == FREED and
            (local, remote) == ((0, 0), (0, 1)))


def beyond_the_software_card(_name, _kind, local, remote, _posted):
    """It refuses the call whatever the arguments; the client library has looked at them."""
    return local == (801, 0) and remote[0] in (1, 101, 201, 400)


def refused(_name, _kind, local, remote, _posted):
    """docs/api-coverage.md lists it: it is refused whatever the arguments are."""
    return local[0] != 0 and remote == (801, 0)


ALLOWED = (beyond_the_software_card, refused, deferred, of_the_host, freed_is_no_memory)


def results(case, done):
    """(call, kind) -> ((its result, that of the next synchronisation), posted)."""
    found = {}
    for line in done.out.splitlines():
        words = line.split()
        case.check("crashes" not in line and "hangs" not in line, line)
        if len(words) in (4, 5) and words[1][0].isdigit() and words[1].endswith(":"):
            found[words[0], int(words[1][:-1])] = ((int(words[2]), int(words[3])),
                                                   words[4:] == ["posted"])
    return found


def test_wrong_arguments_get_the_error_that_the_driver_gives(case):
    program = case.build / "tests" / "programs" / "negative"
    env = {**local_driver(case), "CUDA_VISIBLE_DEVICES": "0"}
    local = results(case, case.run([program, "list"], env=env, status=None))
    # The whole card, so that it has the same size.
    remote = results(case, case.pool().run(program, "list", core=100, memory=None, status=None))
    case.check(len(local) > 3000, f"only {len(local)} results of the driver itself")
    case.equal([key for key in local if key not in remote], [], "calls missing remotely")
    used, wrong = set(), []
    for (name, kind), (here, _) in local.items():
        there, posted = remote[name, kind]
        why = next((rule for rule in ALLOWED if rule(name, kind, here, there, posted)), None)
        if why and here != there:
            used.add(why)
        elif here != there:
            wrong.append(f"{name} with kind {kind}: {here} locally, {there} remotely")
    case.equal(wrong, [], "results that differ without a reason")
    case.equal({rule.__name__ for rule in ALLOWED} - {rule.__name__ for rule in used}, set(),
               "reasons that nothing needs any more")
