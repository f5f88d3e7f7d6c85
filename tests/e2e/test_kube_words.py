# SPDX-License-Identifier: Apache-2.0
"""What the programs in a cluster say when something of it is missing: why, and what helps."""

from test_kube import gated_pod, in_world, with_hook


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


def test_a_pod_is_told_where_to_see_why_its_resource_claim_has_no_session(case):
    """As one of several devices, which stands for no session."""
    def body(world):
        world.start()
        world.await_cards()
        world.api.put("pods", gated_pod("user", {}))
        uid = world.api.get("pods", "user", "team")["metadata"]["uid"]
        world.api.tokens = {"good": {"authenticated": True, "user": {
            "username": "system:serviceaccount:team:default",
            "extra": {"authentication.kubernetes.io/pod-uid": [uid]}}}}
        token, commands = case.folder / "pod.token", case.folder / "commands"
        token.write_text("good")
        commands.write_text("init\n")
        with open(commands, encoding="utf-8") as stdin:
            done = case.run([case.programs / "cudash"], stdin=stdin, env={
                "LD_LIBRARY_PATH": str(case.build / "lib"), "GPUPOOL_CLAIM": "dra-train",
                "GPUPOOL_SCHEDULER": world.address, "GPUPOOL_LOG": "*:warn",
                "GPUPOOL_POD_TOKEN_FILE": str(token)})
        case.check(done.out.split()[0] != "0", "cuInit succeeded without a session")
        case.contains(done.err, "kubectl describe resourceclaims -n team says why", "the way on")
    in_world(case, body)
