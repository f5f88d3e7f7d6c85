# SPDX-License-Identifier: Apache-2.0
"""One program per family of calls: the same results and errors remotely as on the driver."""

import json
import os
import sys

from test_programs import local_driver

# In a process of its own: a library that names every result code it knows.
NAME_ERRORS = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
words = ctypes.c_char_p()
for code in range(1100):
    for ask in driver.cuGetErrorName, driver.cuGetErrorString:
        if ask(code, ctypes.byref(words)) == 0:
            print(code, words.value.decode())
"""


def same_remotely_and_locally(case, name, env=None, **options):
    program = case.programs / name
    driver = case.need_file(case.build / "lib" / "libsoftgpu.so", "libsoftgpu.so is not built")
    (case.folder / "local").mkdir()
    (case.folder / "local" / "libcuda.so.1").symlink_to(driver)
    local = case.run([program, "strict"], status=None,
                     env={"LD_LIBRARY_PATH": str(case.folder / "local"),
                          "SOFTGPU_INSTANCE": name, **(env or {})})
    pool = case.pool(env=env)
    remote = pool.run(program, "strict", status=None, **options)
    case.equal(remote.out, local.out, "what the program prints")
    case.equal(remote.status, local.status, "exit status")
    case.equal(local.status, 0, "exit status of the program on the driver itself")


def test_graphs_that_decide_and_hold_memory(case):
    same_remotely_and_locally(case, "conditions")


def test_textures_and_surfaces(case):
    same_remotely_and_locally(case, "textures")


def test_calls_that_few_programs_make(case):
    same_remotely_and_locally(case, "rarecalls")


def test_graphs_that_copy_from_and_to_the_program(case):
    same_remotely_and_locally(case, "graphcopies")


def test_clusters_of_blocks_on_a_card_that_has_them(case):
    same_remotely_and_locally(case, "clusters", env={"SOFTGPU_CC": "9.0"})


def test_clusters_of_blocks_on_a_card_that_has_none(case):
    same_remotely_and_locally(case, "clusters")


def test_kernels_that_fail_and_what_still_works(case):
    same_remotely_and_locally(case, "faults")


def test_lines_of_the_log_and_notifications_reach_the_programs_callbacks(case):
    same_remotely_and_locally(case, "notices", env={"SOFTGPU_MEMORY_BUDGET": "64MiB"})


def test_contexts_streams_captures_and_host_functions_of_threads(case):
    same_remotely_and_locally(case, "order")


def test_calls_from_within_host_functions_are_refused(case):
    same_remotely_and_locally(case, "forbidden")


def test_pools_and_virtual_memory(case):
    same_remotely_and_locally(case, "space")


def test_stream_ordered_memory_that_is_freed_and_allocated_again(case):
    same_remotely_and_locally(case, "spares")


def test_stream_ordered_memory_over_tcp_and_without_spare_blocks(case):
    local = case.run([case.programs / "spares", "strict"], env=local_driver(case), status=None)
    pool = case.pool()
    for env in ({"GPUPOOL_TRANSPORT": "tcp"}, {"GPUPOOL_SPARE_BLOCKS": "0"}):
        remote = pool.run(case.programs / "spares", "strict", env=env, status=None)
        case.equal((remote.out, remote.status), (local.out, 0), f"what it prints with {env}")


def test_spare_blocks_are_memory_of_which_all_can_be_allocated(case):
    done = case.pool().run(case.programs / "spares", "all", core=50, memory="64MiB", status=None)
    case.contains(done.out, "all of the memory: ok\n", "the session's memory to the last byte")
    case.equal(done.status, 0, "exit status")


def test_stream_ordered_memory_that_comes_back_costs_no_round_trip(case):
    pool = case.pool()
    trips = {}
    for spare in ("1", "0"):
        done = pool.cli("doctor", "--json", "--trips", "--", case.programs / "spares",
                        env={"GPUPOOL_SPARE_BLOCKS": spare}, status=None)
        trips[spare] = {t["call"]: t for t in json.loads(done.out)["trips"]}
    for call, most in (("cuMemAllocAsync", 1000), ("cuMemAllocFromPoolAsync", 250)):
        case.check(trips["1"][call]["trips"] <= most < trips["1"][call]["calls"],
                   f"{call}: {trips['1'][call]}, at most {most} trips")
        case.equal(trips["0"][call]["trips"], trips["0"][call]["calls"], f"{call} without")
    for call in ("cuMemFreeAsync", "cuStreamSynchronize"):
        case.check(trips["1"][call]["trips"] <= trips["0"][call]["trips"],
                   f"{call}: {trips['1'][call]}, without {trips['0'][call]}")


def test_rows_of_arrays_fills_and_what_memory_says(case):
    same_remotely_and_locally(case, "moves")


def test_what_is_stated_of_parameters(case):
    same_remotely_and_locally(case, "rules")


def test_what_is_stated_of_values_that_textures_read(case):
    same_remotely_and_locally(case, "sampled")


def test_boxes_of_which_only_the_extent_is_given(case):
    same_remotely_and_locally(case, "boxes")


def test_what_is_stated_of_batches_of_copies(case):
    same_remotely_and_locally(case, "batches")


def test_batches_of_copies_over_tcp(case):
    same_remotely_and_locally(case, "batches", env={"GPUPOOL_TRANSPORT": "tcp"})


def test_what_graphs_of_many_nodes_list(case):
    same_over_tcp_and_shared_memory(case, "listings")


def test_nodes_that_end_with_their_graphs(case):
    same_over_tcp_and_shared_memory(case, "graphends")


def test_arrays_that_move_in_pieces(case):
    same_over_tcp_and_shared_memory(case, "arraypieces")


def test_copies_whose_source_is_gone_behind_the_call(case):
    same_over_tcp_and_shared_memory(case, "sources")


def test_code_that_is_loaded_or_refused(case):
    same_remotely_and_locally(case, "loading")


def test_programs_that_open_the_library_again(case):
    same_remotely_and_locally(case, "reopened")


def test_parts_of_managed_memory_that_were_advised_and_prefetched(case):
    same_remotely_and_locally(case, "advice")


def test_what_is_stated_of_batches_launches_clones_and_captures(case):
    same_remotely_and_locally(case, "stated")


def test_memory_domains_of_a_card_that_has_several(case):
    same_remotely_and_locally(case, "stated", env={"SOFTGPU_CC": "9.0"})


def test_what_contexts_functions_and_streams_say(case):
    same_remotely_and_locally(case, "asked")


def test_what_the_library_knows_by_itself_changes_when_the_driver_would_say_so(case):
    same_remotely_and_locally(case, "queries")


def test_what_the_library_knows_over_tcp_changes_as_well(case):
    same_remotely_and_locally(case, "queries", env={"GPUPOOL_TRANSPORT": "tcp"})


def test_what_the_library_knows_costs_no_round_trip(case):
    pool = case.pool()
    for transport in ("shm", "tcp"):
        done = pool.cli("doctor", "--json", "--trips", "--", case.programs / "queries",
                        env={"GPUPOOL_TRANSPORT": transport}, status=None)
        trips = {t["call"]: t for t in json.loads(done.out)["trips"]}
        for call, most in (("cuDevicePrimaryCtxGetState", 7),
                           ("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 2),
                           ("cuFuncGetAttribute", 40), ("cuEventQuery", 8), ("cuMemcpyHtoDAsync_v2", 0), ("cuMemcpyDtoHAsync_v2", 0),
                           ("cuLaunchKernel", 0), ("cuMemsetD32Async", 0), ("cuMemcpyHtoD_v2", 40)):
            case.check(trips[call]["trips"] <= most < trips[call]["calls"],
                       f"{call} over {transport}: {trips[call]}, at most {most} trips")


def test_time_between_events_is_that_of_their_last_records(case):
    same_remotely_and_locally(case, "elapsed")


def test_time_between_events_comes_with_the_wait_before(case):
    pool = case.pool()
    for transport in ("shm", "tcp"):
        done = pool.cli("doctor", "--json", "--trips", "--", case.programs / "elapsed",
                        env={"GPUPOOL_TRANSPORT": transport}, status=None)
        trips = {t["call"]: t for t in json.loads(done.out)["trips"]}["cuEventElapsedTime"]
        # The first of each pair, what was recorded
        # again behind the wait, and errors are asked for.
        case.check(trips["trips"] <= 25 < trips["calls"] // 2,
                   f"over {transport}: {trips}, at most 25 trips")


def test_launches_in_every_order_of_their_shapes(case):
    same_remotely_and_locally(case, "shapes")


def test_launches_of_known_shapes_over_tcp(case):
    same_remotely_and_locally(case, "shapes", env={"GPUPOOL_TRANSPORT": "tcp"})


def test_waits_for_the_context_behind_copies_and_behind_work(case):
    same_remotely_and_locally(case, "waited")


def test_waits_for_the_context_behind_copies_and_behind_work_over_tcp(case):
    same_remotely_and_locally(case, "waited", env={"GPUPOOL_TRANSPORT": "tcp"})


def test_wait_for_the_context_behind_a_copy_that_waited_costs_no_trip(case):
    pool = case.pool()
    for transport in ("shm", "tcp"):
        done = pool.cli("doctor", "--json", "--trips", "--", case.programs / "waited",
                        env={"GPUPOOL_TRANSPORT": transport}, status=None)
        trips = {t["call"]: t for t in json.loads(done.out)["trips"]}
        # A copy up waits where the program waited behind the one before, unless a frame about the
        # length of pieces is before it; 40 short ones behind each other do not.
        for call, most in (("cuCtxSynchronize", {"shm": 32, "tcp": 34}),
                           ("cuStreamSynchronize", {"shm": 3, "tcp": 14}),
                           ("cuMemcpyHtoD_v2", {"shm": 95, "tcp": 82})):
            case.check(trips[call]["trips"] <= most[transport],
                       f"{call} over {transport}: {trips[call]}, at most {most[transport]} trips")


def test_nodes_of_an_instance_that_change_again_and_again(case):
    same_remotely_and_locally(case, "updates")


def test_changes_of_an_instance_cost_a_trip_once(case):
    pool = case.pool()
    for transport in ("shm", "tcp"):
        done = pool.cli("doctor", "--json", "--trips", "--", case.programs / "updates",
                        env={"GPUPOOL_TRANSPORT": transport}, status=None)
        trips = {t["call"]: t for t in json.loads(done.out)["trips"]}[
            "cuGraphExecKernelNodeSetParams_v2"]
        # The first of each node, what is refused, and what follows a change of the kernel.
        case.check(trips["trips"] <= 15 < trips["calls"] // 3,
                   f"over {transport}: {trips}, at most 15 trips")


def test_nodes_of_graphs_asked_and_changed(case):
    same_remotely_and_locally(case, "nodes")


def test_functions_of_captured_graphs_run_at_every_launch_and_hold_no_free(case):
    same_remotely_and_locally(case, "hostfuncs", env={"GPUPOOL_TRANSPORT": "tcp"},
                              core=100)


def test_pending_functions_hold_no_memory_that_both_sides_map(case):
    same_remotely_and_locally(case, "hostfuncs", env={"GPUPOOL_TRANSPORT": "shm"},
                              core=100)


def test_nodes_and_executable_graphs_take_new_functions_for_ever(case):
    same_remotely_and_locally(case, "hostnodes", core=100)


def test_functions_that_no_launch_of_a_graph_has_taken_go_at_once(case):
    same_remotely_and_locally(case, "waitnodes", core=100)


def same_over_tcp_and_shared_memory(case, name, pool=None, card=None, **options):
    """As same_remotely_and_locally(), in one pool over each of both transports."""
    local = case.run([case.programs / name, "strict"],
                     env={**local_driver(case), **(card or {})})
    pool = pool or case.pool(env=card)
    for transport in ("tcp", "shm"):
        env = {} if "E2E_TRANSPORT" in os.environ else {"GPUPOOL_TRANSPORT": transport}
        remote = pool.run(case.programs / name, "strict", env=env, status=None, **options)
        case.equal((remote.out, remote.status), (local.out, 0), f"{name} over {transport}")


def test_callbacks_behind_a_kernel_that_fails_are_called_with_its_error(case):
    same_over_tcp_and_shared_memory(case, "callbacks")


def test_lists_and_texts_come_whole_whatever_room_the_program_has(case):
    same_over_tcp_and_shared_memory(case, "rooms")


def test_contexts_of_green_contexts_are_parts_of_the_primary_one(case):
    same_over_tcp_and_shared_memory(case, "greens", card={"SOFTGPU_SMS": "4"})


def test_libraries_that_come_and_go_leave_nothing_behind(case):
    if case.sanitizer:
        case.skip(f"the memory of a program built with -fsanitize={case.sanitizer} is another's")
    same_over_tcp_and_shared_memory(case, "reloads")


def test_calls_that_end_something_do_so_beside_an_error_of_another(case):
    same_over_tcp_and_shared_memory(case, "ends")


def test_kernel_has_one_handle_by_whichever_way_it_is_found(case):
    same_over_tcp_and_shared_memory(case, "handles")


def test_what_the_driver_refuses_to_destroy_stays_usable(case):
    same_over_tcp_and_shared_memory(case, "kept")


def test_references_to_mapped_memory_have_the_handle_that_was_mapped(case):
    same_over_tcp_and_shared_memory(case, "retained")


def test_errors_have_one_name_and_text_in_both_libraries(case):
    said = [case.run([*case.interpreter(), "-c", NAME_ERRORS, case.build / "lib" / library]).out
            for library in ("libcuda.so.1", "libsoftgpu.so")]
    case.equal(said[0], said[1], "names and texts of the client stub and the software GPU")
    case.equal("1 CUDA_ERROR_INVALID_VALUE\n1 invalid argument\n" in said[0], True, "words")
