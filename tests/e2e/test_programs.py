# SPDX-License-Identifier: Apache-2.0
"""The main job: programs that know nothing of gpupool give the same answers on a
remote slice as on the driver itself."""

import os
import shutil

from harness.fault_driver import FaultDriver

NAMES = ("vecadd", "matmul", "reduce", "histogram", "mandelbrot", "pipeline")


def local_driver(case, name="libsoftgpu.so"):
    """Environment in which libcuda.so.1 is the driver itself, on cards of its own: others
    may be of another size."""
    folder = case.folder / "driver"
    folder.mkdir(exist_ok=True)
    link = folder / "libcuda.so.1"
    if not link.exists():
        link.symlink_to(case.build / "lib" / name)
    return {"LD_LIBRARY_PATH": str(folder), "SOFTGPU_INSTANCE": case.folder.name}


def same_over_links(case, pool, name, memory, local):
    """The program prints on a slice what @local, its run on the driver itself, has printed."""
    for link in ("tcp", "shm"):
        remote = pool.run(case.programs / name, core=50, memory=memory, status=None,
                          env={"GPUPOOL_TRANSPORT": link})
        case.equal(remote.out, local.out, f"{name} over {link}: remote against local")
        case.equal((remote.status, remote.err), (0, ""), f"status and words over {link}")


def compare(case, suffix=""):
    """What the driver-API programs print on the driver itself is what the programs
    with @suffix must print on a remote slice."""
    pool = case.pool(servers=2, cards=2)
    env = local_driver(case)
    for name in NAMES:
        local = case.run([case.programs / name, 2], env=env)
        remote = pool.run(case.programs / (name + suffix), 2, core=30, memory="1GiB")
        case.contains(local.out, ": ok\n", f"{name} on the driver itself")
        case.equal(remote.out, local.out, f"{name}{suffix}: remote against local")
        case.equal(remote.err, "", f"{name}{suffix}: the stub is silent")


def test_driver_api_programs_print_the_same_remote_and_local(case):
    compare(case)


def test_every_driver_feature_works_remotely_as_on_the_driver_itself(case):
    local = case.run([case.programs / "features"], env=local_driver(case))
    remote = case.pool().run(case.programs / "features", core=50, memory="1GiB", status=None)
    case.equal(remote.out, local.out, "features: remote against local")
    case.equal(remote.status, 0, "exit status of the remote run")


def test_managed_memory_follows_the_turns_of_host_and_card(case):
    local = case.run([case.programs / "managed"], env=local_driver(case))
    remote = case.pool().run(case.programs / "managed", core=50, memory="1GiB", status=None)
    case.equal(remote.out, local.out, "managed: remote against local")
    case.equal((remote.status, remote.err), (0, ""), "status and words of the remote run")


def test_managed_and_page_locked_memory_move_what_has_changed(case):
    local = case.run([case.programs / "managed_traffic"], env=local_driver(case))
    pool = case.pool()
    # Without the kernel's word on what the program has written, memory is compared.
    ways = (("tcp", "1"), ("tcp", "0"), ("shm", "1"))
    for link, watch in ways[:1] if case.sanitizer else ways:
        remote = pool.run(case.programs / "managed_traffic", core=100, memory="1GiB", status=None,
                          env={"GPUPOOL_TRANSPORT": link, "GPUPOOL_MANAGED_WATCH": watch})
        case.equal(remote.out, local.out, f"over {link}, pages watched: {watch}")
        case.equal((remote.status, remote.err), (0, ""), f"status and words over {link}")


SLOWLY = b"""mov.u64 word, %globaltimer;
slowly:
    mov.u64 other, %globaltimer;
    sub.u64 other, other, word;
    setp.lt.u64 p, other, 10000000;
    @p bra slowly;
"""


def with_slow_digests(worker):
    """The worker, its bytes, whose kernel takes 10 ms before it reads a page.  The comment
    before the kernel gives the room."""
    start = worker.index(b"// SPDX-License-Identifier: Apache-2.0\n// Digests of pages of memory")
    end = worker.index(b"\0", start)
    text = worker[worker.index(b".version", start):end].replace(b"mov.u64 sum, 0;", SLOWLY + b"mov.u64 sum, 0;")
    return worker[:start] + text.ljust(end - start) + worker[end:]


def build_whose_driver_says_nothing(case, digests=True, slowly=False):
    """This build with a softgpu that has not the entries which tell what it has written.
    Without @digests its cards do not make them either, for the kernel is not found."""
    build = case.folder / "build"
    for folder in ("bin", "lib"):
        shutil.copytree(case.build / folder, build / folder, symlinks=True)
    (build / "tests").symlink_to(case.build / "tests")
    driver = build / "lib" / "libsoftgpu.so"
    driver.write_bytes(driver.read_bytes().replace(b"\0sg_changes_take\0", b"\0no_changes_take\0"))
    worker = build / "bin" / "gpupool-worker"
    if not digests:
        worker.write_bytes(worker.read_bytes().replace(b".entry gp_digests(", b".entry no_digests("))
    if slowly:
        worker.write_bytes(with_slow_digests(worker.read_bytes()))
    return build


def same_with_such_a_driver(case, how, **options):
    local = {(name, *more): case.run([case.programs / name, *more], env=local_driver(case)).out
             for name, *more in (("managed",), ("managed_traffic", how))}
    case.build = build_whose_driver_says_nothing(case, **options)
    pool = case.pool()
    for (name, *more), out in local.items():
        for link in ("tcp", "shm"):
            remote = pool.run(case.programs / name, *more, core=100, memory="1GiB", status=None,
                              env={"GPUPOOL_TRANSPORT": link})
            case.equal((remote.out, remote.status), (out, 0), f"{name} over {link}")


def test_card_makes_digests_of_managed_memory_where_its_driver_does_not_say(case):
    """What has changed is found, and nothing else moves."""
    same_with_such_a_driver(case, "digests")


def test_managed_memory_is_fetched_whole_where_there_are_no_digests_either(case):
    same_with_such_a_driver(case, "whole", digests=False)


def ends_with_such_a_driver(case, rounds, **options):
    local = case.run([case.programs / "managed_ends", rounds], env=local_driver(case))
    case.build = build_whose_driver_says_nothing(case, **options)
    pool = case.pool()
    for link in ("tcp", "shm"):
        remote = pool.run(case.programs / "managed_ends", rounds, core=100, memory="1GiB", status=None,
                          env={"GPUPOOL_TRANSPORT": link})
        case.equal((remote.out, remote.err, remote.status), (local.out, "", 0), f"over {link}")


def test_context_may_end_while_managed_memory_is_read(case):
    ends_with_such_a_driver(case, "300")


def test_context_may_end_while_digests_of_its_memory_are_made(case):
    """Their kernel is in another context, and the end of this one does not wait for that."""
    ends_with_such_a_driver(case, "3", slowly=True)


def test_linking_gives_the_same_results_logs_and_errors(case):
    local = case.run([case.programs / "linking", "strict"], env=local_driver(case))
    case.contains(local.out, "linking: ok", "on the driver itself")
    remote = case.pool().run(case.programs / "linking", "strict", core=50, status=None)
    case.equal(remote.out, local.out, "linking: remote against local")
    # The software card says once what was wrong with an image.
    words = [line for line in remote.err.splitlines()
             if not line.startswith("softgpu: loading a module: ")]
    case.equal((remote.status, words), (0, []), "status and words of the remote run")


def test_processes_of_a_session_share_memory_and_events_as_on_the_driver_itself(case):
    local = case.run([case.programs / "ipc"], env=local_driver(case))
    case.contains(local.out, "ipc: ok", "on the driver itself")
    for line in ("an event that was recorded and then exported: 600",
                 "its record from before the export: 600", "a stream behind it: 600",
                 "a record whose maker lives: 600", "query when its maker is gone: 0"):
        case.contains(local.out, line, "on the driver itself")
    pool = case.pool()
    same_over_links(case, pool, "ipc", "400MiB", local)


def test_events_of_a_driver_that_needs_memory_with_a_name_reach_another_process(case):
    """NVIDIA's driver opens it with shm_open(), and workers make no files."""
    local = case.run([case.programs / "ipc"], env=local_driver(case))
    driver = FaultDriver(case)
    pool = driver.pool(servers=1, cards=1)
    same_over_links(case, pool, "ipc", "400MiB", local)


def test_memory_goes_from_one_process_of_a_session_to_the_next(case):
    """None of them asks again when there is no room: what ended or was freed is free."""
    local = case.run([case.programs / "processes"], env=local_driver(case))
    pool = case.pool(servers=1, cards=1)
    same_over_links(case, pool, "processes", "256MiB", local)


def test_primary_context_is_whole_for_whoever_retains_it(case):
    local = case.run([case.programs / "primary"], env=local_driver(case))
    pool = case.pool(servers=1, cards=1)
    for link in ("tcp", "shm"):
        remote = pool.run(case.programs / "primary", core=100, memory="256MiB", status=None,
                          env={"GPUPOOL_TRANSPORT": link})
        case.equal(remote.out, local.out, f"primary over {link}: remote against local")
        case.equal((remote.status, remote.err), (0, ""), f"status and words over {link}")


def test_registered_memory_that_is_unmapped_ends_no_program(case):
    pool = case.pool(servers=1, cards=1)
    parts = ("copies", "boxes", "copies under way", "mapped again", "the end of the process")
    program = case.programs / "unmapped"
    ways = [("tcp", [program]), ("shm", [program])]
    if not case.sanitizer:  # no room for the addresses that host and card have in common
        ways.append(("tcp", ["bash", "-c", f"ulimit -v 16000000; exec {program}"]))
    for link, command in ways:
        done = pool.run(*command, core=50, memory="256MiB", status=None,
                        env={"GPUPOOL_TRANSPORT": link})
        case.equal((done.out, done.status), ("".join(f"{part}: ok\n" for part in parts), 0),
                   f"unmapped over {link}, {command}")


def test_limit_of_file_sizes_ends_no_program(case):
    """Page-locked memory is a file in memory; logs and messages may go to one."""
    local = case.run([case.programs / "unified", "strict"], env=local_driver(case))
    pool = case.pool()
    limited = ["bash", "-c", 'ulimit -f 0; exec "$@"', "-"]
    if case.sanitizer == "thread":
        # Its runtime writes a file of its own before main(), unless TMPDIR is no folder.
        limited[2] = f"export TMPDIR={case.folder}/none; {limited[2]}"
    done = pool.run(*limited, case.programs / "unified", "strict", core=100, memory="1GiB",
                    status=None, env={"GPUPOOL_TRANSPORT": "shm", "GPUPOOL_LOG": "*:debug",
                                      "GPUPOOL_LOG_FILE": str(case.folder / "stub.log")})
    case.equal((done.out, done.status), (local.out, 0), "unified under ulimit -f 0")
    refused = case.run([*limited, case.build / "bin" / "gpupool", "run", "--", "true"],
                       env=pool.env, status=None)
    case.check(refused.status > 0, f"no death by a signal: {refused}")
    case.contains(refused.err, "File too large", "what gpupool run says")


def test_cancelled_thread_leaves_no_lock_behind(case):
    local = case.run([case.programs / "cancelled"], env=local_driver(case))
    pool = case.pool(servers=1, cards=1)
    for env in ({"GPUPOOL_TRANSPORT": "tcp"}, {"GPUPOOL_TRANSPORT": "shm"}):
        remote = pool.run(case.programs / "cancelled", core=100, memory="256MiB", status=None,
                          env=env)
        case.equal((remote.out, remote.status), (local.out, 0), f"cancelled, {env}")


def test_handles_of_one_session_open_nothing_in_another(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=30, memory="64MiB")
    mine, sibling = session.cudash(), session.cudash()
    other = pool.session(core=30, memory="64MiB").cudash()
    for shell in (mine, sibling, other):
        shell.ok("init")
        shell.ok("context")
    mine.ok("alloc", 1 << 20)
    for export, opens, what in (("export 0", "import", "memory"),
                                ("poolexport 65536", "poolimport", "memory of a pool")):
        handle = mine.ok(*export.split())
        sibling.ok(opens, handle)
        case.check(other(opens, handle)[0] != 0, f"{what}: a foreign handle opens nothing")
    other.ok("alloc", 1 << 20)
    other.ok("sync")
    for shell in (mine, sibling, other):
        case.equal(shell.close(), 0, "exit status")


def test_managed_memory_that_cannot_be_moved_fails_the_wait(case):
    if case.sanitizer:
        case.skip(f"the address space of a program built with -fsanitize={case.sanitizer} "
                  "has no limit")
    done = case.pool().run(case.programs / "managed_limit")
    case.equal(done.out, "wait without room: 2, byte 0\nnext wait: 0, byte 0x5a\n",
               "the error of the wait, and what the next one brings")


def test_asynchronous_copies_to_the_host_hold_nobody_and_arrive_in_order(case):
    local = case.run([case.programs / "landing"], env=local_driver(case))
    pool = case.pool()
    same_over_links(case, pool, "landing", "1GiB", local)


def test_page_locked_memory_keeps_order_and_content_shared_or_sent(case):
    local = case.run([case.programs / "pinned", 1, "shared"], env=local_driver(case))
    case.contains(local.out, "shared: 0\n", "pinned on the driver itself")
    pool = case.pool()
    for link, shared in (("tcp", 0), ("shm", 1)):
        remote = pool.run(case.programs / "pinned", 1, "shared", core=50, memory="1GiB",
                          status=None, env={"GPUPOOL_TRANSPORT": link})
        case.equal(remote.out, local.out.replace("shared: 0", f"shared: {shared}"),
                   f"pinned over {link}: remote against local")
        case.equal((remote.status, remote.err), (0, ""), f"status and words over {link}")


def test_page_locked_memory_has_one_address_for_host_and_card(case):
    local = case.run([case.programs / "unified", "strict"], env=local_driver(case))
    case.check("wrong" not in local.out, "unified on the driver itself")
    pool = case.pool()
    for link in ("tcp", "shm"):
        remote = pool.run(case.programs / "unified", "strict", core=100, memory="1GiB",
                          status=None,
                          env={"GPUPOOL_TRANSPORT": link})
        case.equal(remote.out, local.out, f"unified over {link}: remote against local")
        case.equal((remote.status, remote.err), (0, ""), f"status and words over {link}")


def test_page_locked_memory_has_one_address_at_several_servers(case):
    if "thread" in case.sanitizer:
        case.skip("ThreadSanitizer leaves no addresses that three processes are sure to have free")
    local = case.run([case.programs / "unified", "strict"], env=local_driver(case))
    done = case.pool(servers=2, cards=1).run(case.programs / "unified", "strict",
                                             options=["--cards", "2", "--span"], core=100,
                                             memory="1GiB", status=None)
    case.equal((done.out, done.status), (local.out, 0), "unified in a session of two servers")


def test_process_without_room_for_the_common_addresses_asks_for_device_pointers(case):
    if case.sanitizer:
        case.skip(f"the address space of a program built with -fsanitize={case.sanitizer} "
                  "has no limit")
    local = case.run([case.programs / "managed"], env=local_driver(case))
    done = case.pool().run("bash", "-c", f"ulimit -v 16000000; exec {case.programs}/managed",
                           core=50, memory="1GiB", status=None,
                           env={"GPUPOOL_LOG": "stub:warn"})
    case.equal((done.out, done.status), (local.out, 0), "managed with 16 GB of addresses")
    case.contains(done.err, "page-locked memory has another address on the card", "the log")


def test_spinning_kernel_never_keeps_its_waker_out(case):
    """The same on a card of one's own, and over each transport."""
    plain = case.run([case.programs / "wakers"], env=local_driver(case)).out
    case.contains(plain, ": ok\n", "wakers on a software card of its own")
    session = case.pool().session(core=100)  # a spinning kernel spends its share
    for env in ({"GPUPOOL_TRANSPORT": "shm"}, {"GPUPOOL_TRANSPORT": "tcp"},
                {"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_COMPRESS": "always"},
                {"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_CONNECTIONS": "5"}):
        case.equal(session.run(case.programs / "wakers", env=env).out, plain, f"wakers, {env}")


def as_on_the_driver_over_each_link(case, program, words):
    """It prints the same as on a software card of its own, @words among it."""
    local = case.run([case.programs / program], env=local_driver(case)).out
    case.contains(local, words, f"{program} on a software card of its own")
    session = case.pool().session(core=100)
    for transport in ("tcp", "shm"):
        env = {} if "E2E_TRANSPORT" in os.environ else {"GPUPOOL_TRANSPORT": transport}
        case.equal(session.run(case.programs / program, env=env).out, local, transport)


def test_what_is_given_back_beside_a_spinning_kernel_does_not_keep_its_waker_out(case):
    """Whichever context the thing is of, and whichever is current."""
    as_on_the_driver_over_each_link(case, "released", ": ok\n")


def test_copies_read_and_write_the_programs_memory_at_their_turn(case):
    as_on_the_driver_over_each_link(case, "turns", ": ok\n")


def test_host_functions_overtake_no_copies_that_nobody_reads(case):
    as_on_the_driver_over_each_link(case, "overtaken", "the function's bytes: 7 7\n")


def test_large_copies_keep_every_byte_whatever_lies_under_them(case):
    local = case.run([case.programs / "copies"], env=local_driver(case))
    pool = case.pool()
    for transport in ("tcp", "shm"):
        env = {} if "E2E_TRANSPORT" in os.environ else {"GPUPOOL_TRANSPORT": transport}
        case.equal(pool.run(case.programs / "copies", env=env).out, local.out, transport)


def test_threads_share_a_context_without_loss_or_deadlock(case):
    env = local_driver(case)
    case.contains(case.run([case.programs / "threads", 3], env=env).out, ": ok\n",
                  "on the driver itself")
    done = case.pool().run(case.programs / "threads", 3)
    case.contains(done.out, ": ok\n", "on a remote slice")


def foreign(case, suffix):
    if case.sanitizer:
        case.skip(f"nvcc's programs are built without -fsanitize={case.sanitizer}")
    for name in NAMES:
        case.need_file(case.programs / (name + suffix), "nvcc is not installed")


def test_runtime_features_work_with_both_runtimes(case):
    pool = None
    for suffix in ("-static", "-shared"):
        foreign(case, suffix)
        pool = pool or case.pool()
        done = pool.run(case.programs / f"features{suffix}", core=50, memory="1GiB",
                        status=None)
        wrong = [line for line in done.out.split("\n") if line and not line.endswith(": ok")]
        case.equal(wrong, [], f"features{suffix}: lines that are not ok")
        case.equal(done.status, 0, f"exit status of features{suffix}")


def test_managed_variables_of_both_runtimes_live_on_both_sides(case):
    pool = None
    for suffix in ("-static", "-shared"):
        foreign(case, suffix)
        pool = pool or case.pool()
        done = pool.run(case.programs / f"managed{suffix}", status=None)
        wrong = [line for line in done.out.split("\n") if line and not line.endswith(": ok")]
        case.equal((wrong, done.status), ([], 0), f"managed{suffix}: lines that are not ok")


def test_programs_with_static_runtime_run_unrebuilt(case):
    foreign(case, "-static")
    compare(case, "-static")


def test_programs_with_shared_runtime_run_unrebuilt(case):
    foreign(case, "-shared")
    compare(case, "-shared")


def test_programs_of_one_session_run_side_by_side(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=60, memory="512MiB")
    running = [(name, case.spawn([case.programs / name, 3], env=session.env))
               for name in NAMES]
    for name, process in running:
        out, _ = process.communicate(timeout=case.patience * 3)
        case.equal(process.returncode, 0, f"exit status of {name}")
        case.contains(out, ": ok\n", name)


def test_exit_status_and_output_are_the_programs_own(case):
    pool = case.pool()
    done = pool.run("sh", "-c", "echo out; echo err >&2; exit 7", status=7)
    case.equal((done.out, done.err), ("out\n", "err\n"), "what the program said")
