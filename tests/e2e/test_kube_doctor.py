# SPDX-License-Identifier: Apache-2.0
"""What `gpupool kube doctor` says of a cluster, which a double of kubectl shows."""

import copy
import json
import os
import sys

# Objects by what comes after "get"; a text is an error.
KUBECTL = """#!{python} -IS
import json, sys
words = [w for w in sys.argv[2:] if not w.startswith("-")]
objects = json.load(open({objects!r}))
if "--raw" in sys.argv:
    print("{{}}")
    sys.exit()
found = objects.get(words[0])
if isinstance(found, dict) and "items" not in found:
    found = found.get(words[1])
if isinstance(found, str):
    sys.exit(found)
if found is None and "--ignore-not-found" not in sys.argv:
    sys.exit("Error from server (NotFound)")
if found is not None:
    print(json.dumps(found))
"""

DEPLOYED = {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}


def controller(scheduler):
    args = ["--token-file=/etc/gpupool/admin", f"--scheduler={scheduler}"]
    return {**DEPLOYED, "spec": {"replicas": 2, "template": {"spec": {"containers": [
        {"name": "controller", "args": args}]}}}}


def claim(name, phase="Bound", reason="Bound", message="", **spec):
    status = {"phase": phase, "message": message,
              "conditions": [{"type": "Ready", "reason": reason}]} if phase else {}
    return {"metadata": {"namespace": "team", "name": name}, "spec": spec, "status": status}


def card(phase="Available", reason="ServerAlive"):
    return {"metadata": {"name": "card"}, "status": {"phase": phase, "reason": reason}}


GOOD = {
    "crd": {"elasticgpuclaims.elasticgpu.io": {}},
    "statefulset": {"gpupool-scheduler": {"spec": {"replicas": 1},
                                          "status": {"readyReplicas": 1}}},
    "deployment": {"gpupool-controller": controller("gpupool-scheduler.gpupool.svc:7480"),
                   "gpupool-webhook": DEPLOYED},
    "daemonset": {"gpupool-server": {"status": {"desiredNumberScheduled": 2,
                                                "numberReady": 2}}},
    "mutatingwebhookconfigurations": {"gpupool": {"webhooks": [
        {"clientConfig": {"caBundle": "QQ=="}}]}},
    "elasticgpuclasses": {"items": [
        {"metadata": {"name": "remote"}, "provisioner": "elasticgpu.io/remote"},
        {"metadata": {"name": "local",
                      "annotations": {"elasticgpu.io/is-default-class": "true"}},
         "provisioner": "elasticgpu.io/local"}]},
    "elasticgpus": {"items": [card(), card("Bound")]},
    "elasticgpuclaims": {"items": [claim("one", elasticGPUClassName="remote")]},
    "secret": {"gpupool-webhook-tls": {}},
    "pods": {"items": []},
}


def doctor(case, change=None, status=0):
    """What the doctor says of a good cluster after @change(objects)."""
    folder = case.folder / "kubectl"
    folder.mkdir(exist_ok=True)
    objects = copy.deepcopy(GOOD)
    if change:
        change(objects)
    (folder / "objects.json").write_text(json.dumps(objects))
    program = folder / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable, objects=str(folder / "objects.json")))
    program.chmod(0o755)
    return case.run([case.build / "bin/gpupool", "kube", "doctor"], status=status,
                    env={"PATH": f"{folder}:{os.environ['PATH']}"}).out


def problem(case, change, words):
    said = doctor(case, change, status=1)
    case.contains(said, f"PROBLEM {words}", "the problem")
    case.equal(said.count("PROBLEM"), 1, f"problems in {said}")


def test_good_cluster_has_no_problems(case):
    case.check("PROBLEM" not in doctor(case), "a problem of a good cluster")


def test_doctor_finds_what_a_part_of_the_pool_lacks(case):
    def set_status(kind, name, **status):
        return lambda o: o[kind][name].update(status=status)

    problem(case, set_status("deployment", "gpupool-webhook", readyReplicas=1),
            "gpupool-webhook: 1 of 2 are ready")
    problem(case, set_status("statefulset", "gpupool-scheduler"),
            "gpupool-scheduler: 0 of 1 are ready")
    problem(case, lambda o: o["statefulset"].clear(), "gpupool-scheduler: it is not there")
    problem(case, set_status("daemonset", "gpupool-server", desiredNumberScheduled=3,
                             numberReady=0), "gpupool-server: 0 of 3 are ready")
    problem(case, set_status("daemonset", "gpupool-server", desiredNumberScheduled=0,
                             numberReady=0), "gpupool-server: no node has the label")
    problem(case, lambda o: o["mutatingwebhookconfigurations"].update(gpupool={"webhooks": []}),
            "the API server knows the webhook's certificate: the configuration names no")
    problem(case, lambda o: o.update(crd="Error from server (Forbidden): you may not"),
            "the kinds of elasticgpu.io: kubectl get: Error from server (Forbidden)")
    problem(case, lambda o: o["crd"].clear(), "the kinds of elasticgpu.io: run gpupool")


def test_doctor_takes_parts_that_are_elsewhere(case):
    def elsewhere(objects):
        del objects["statefulset"], objects["daemonset"]
        objects["deployment"]["gpupool-controller"] = controller("pool.example.org:7480")

    said = doctor(case, elsewhere)
    case.contains(said, "the controller asks pool.example.org:7480", "where the scheduler is")
    case.contains(said, "ok      gpupool-server: the chart runs none", "the servers")


def test_doctor_counts_cards_that_can_be_used(case):
    problem(case, lambda o: o["elasticgpus"].update(items=[card("Failed", "ServerDead"), card("")]),
            "cards of the pool: 2 cards, 0 alive")
    problem(case, lambda o: o["elasticgpus"].update(items=[card(reason="ServerDraining")] * 2),
            "cards of the pool: 2 cards, 2 alive, 2 of them on servers that are drained")
    case.contains(doctor(case, lambda o: o["elasticgpus"].update(
        items=[card(), card(reason="ServerDraining")])), "2 alive, 1 of them on servers",
        "some of the cards")


def test_doctor_names_claims_that_wait_for_the_pool_only(case):
    def claims(*items):
        return lambda o: o["elasticgpuclaims"].update(items=items)

    remote = {"elasticGPUClassName": "remote"}
    said = doctor(case, claims(
        claim("later", "Pending", "WaitForFirstConsumer", "waits for the first pod", **remote),
        claim("other", "", elasticGPUClassName="local"), claim("default", "Pending"),
        claim("old", "", storageClassName="local")))
    case.check("PROBLEM" not in said, f"a claim that needs nothing is a problem: {said}")
    problem(case, claims(claim("full", "Pending", "NoRoom", "no room", **remote)),
            "claim team/full: no room")
    problem(case, claims(claim("new", "", **remote)),
            "claim team/new: the controller has not looked at it")
    problem(case, claims(claim("typo", "Pending", "NotFound", "there is no class x",
                               egpuClassName="x")), "claim team/typo: there is no class x")
    problem(case, lambda o: o.update(elasticgpuclaims="Error from server (Forbidden): no"),
            "claims: kubectl get: Error from server (Forbidden)")


def test_doctor_looks_at_the_charts_scheduler_by_whatever_address_it_is_reached(case):
    def behind_a_name(objects):
        objects["deployment"]["gpupool-controller"] = controller("pool.example.org:7480")
        objects["statefulset"]["gpupool-scheduler"]["status"] = {}

    problem(case, behind_a_name, "gpupool-scheduler: 0 of 1 are ready")


def test_doctor_misses_the_secret_that_the_webhook_may_not_make(case):
    problem(case, lambda o: o["secret"].clear(),
            "the webhook's Secret gpupool-webhook-tls: it is not there")


def pod(name, annotations=None, gated=True, message=""):
    return {"metadata": {"namespace": "team", "name": name, "uid": name,
                         "annotations": annotations or {}},
            "spec": {"schedulingGates": [{"name": "elasticgpu.io/claims"}] if gated else []},
            "status": {"phase": "Pending", "conditions": [{"message": message}]}}


def test_doctor_says_why_a_pod_waits_where_no_claim_does(case):
    def pods(*items):
        return lambda o: o["pods"].update(items=items)

    used = claim("used", elasticGPUClassName="remote")
    used["status"]["consumers"] = [{"name": "first", "uid": "first"}]

    def second(objects):
        objects["elasticgpuclaims"]["items"].append(used)
        objects["pods"]["items"] = [pod("first", {"elasticgpu.io/egpuc-main": "used"}),
                                    pod("second", {"egpuc.elasticgpu.io/main": "used"})]

    problem(case, pods(pod("early", {"elasticgpu.io/egpuc-main": "later"})),
            "pod team/early: it waits for claim later, which does not exist")
    problem(case, second, "pod team/second: it waits for claim used, which pod first uses")
    short = "0/1 nodes are available: 1 Insufficient {}. preemption: not helpful"
    problem(case, pods(pod("plain", gated=False,
                           message=short.format("tke.cloud.tencent.com/qgpu-core"))),
            "pod team/plain: it asks for a card by name and selects no class")
    said = doctor(case, pods(pod("other", gated=False, message=short.format("nvidia.com/gpu")),
                             pod("cpu", gated=False, message=short.format("cpu"))))
    case.check("PROBLEM" not in said, f"pods that are not ours: {said}")
