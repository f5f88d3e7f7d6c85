# SPDX-License-Identifier: Apache-2.0
"""The null driver: it computes nothing, and keeps what programs ask it about."""

import pathlib

HERE = pathlib.Path(__file__).parent


def promises(case, client):
    """What @client found to be so on a card of the null driver's."""
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} is not loaded here")
    done = case.pool(driver="null").run(*case.interpreter(), HERE / client,
                                        env={"GPUPOOL_LOG": "*:info"})
    return done.out.splitlines()


def test_graphs_have_nodes_and_their_copies_are_real(case):
    case.equal(promises(case, "null_graph_client.py"),
               ["ok nodes", "ok launch", "ok changes", "ok update", "ok clone",
                "ok kernels and functions", "ok capture"], "what it promises of graphs")


def test_frameworks_are_answered_before_they_compute(case):
    case.equal(promises(case, "null_client.py"),
               ["ok kernels without a context", "ok page-locked copies", "ok pointers", "ok host functions",
                "ok streams, parts of the card, logs", "ok memory and pools of cards"], "what it promises")
