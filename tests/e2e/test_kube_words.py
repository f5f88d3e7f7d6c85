# SPDX-License-Identifier: Apache-2.0
"""What the programs in a cluster say when something of it is missing: why, and what helps."""

from test_kube import in_world, with_hook


def said(case):
    return (case.folder / "spawned.err").read_text()


def test_the_webhook_says_how_to_make_the_secret_that_somebody_deleted(case):
    def body(_, api):
        case.wait_for(lambda: "data" in api.get("secrets", "tls", "pool"), "its certificate")
        api.delete("secrets", "tls", "pool")
        case.wait_for(lambda: "kubectl create secret generic tls -n pool" in said(case),
                      "the way on", 20)
        case.contains(said(case), "there is no Secret tls in namespace pool", "why")
        api.put("secrets", {"metadata": {"name": "tls", "namespace": "pool"}})
        case.wait_for(lambda: "data" in api.get("secrets", "tls", "pool"),
                      "the next certificate", 20)
    with_hook(case, body)


def test_the_controller_says_that_a_kind_is_not_installed(case):
    def body(world):
        world.api.unknown.add("elasticgpus")
        world.start()
        case.wait_for(lambda: "install its CustomResourceDefinition" in said(case),
                      "the way on", 30)
        world.api.unknown.clear()
        world.await_cards()
    in_world(case, body)
