# SPDX-License-Identifier: Apache-2.0
"""`gpupool kube uninstall`, and `install` without its manifest; a double of kubectl stands
for the cluster."""

import json
import os
import sys

FINALIZER = "elasticgpu.io/session"
# Objects by kind; a kind that is not there is one that the cluster does not know.
KUBECTL = """#!{python} -IS
import json, pathlib, sys
folder = pathlib.Path({folder!r})
with open(folder / "calls", "a") as calls:
    text = sys.stdin.read() if "-f" in sys.argv else ""
    calls.write(json.dumps([sys.argv[1:], text]) + "\\n")
if sys.argv[1] == "get" and "json" in sys.argv:
    found = json.loads((folder / "objects.json").read_text()).get(sys.argv[2])
    if found is None:
        sys.exit("error: the server doesn't have a resource type " + sys.argv[2])
    if isinstance(found, str):  # what it fails with
        sys.exit(found)
    print(json.dumps({{"items": found}}))
"""
MANIFEST = """# made by a test
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: elasticgpus.elasticgpu.io}
---
apiVersion: v1
kind: Namespace
metadata: {name: gpupool}
---
apiVersion: elasticgpu.io/v1alpha1
kind: ElasticGPUClass
metadata: {name: remote}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpupool-controller}
"""


def made(kind, name, *finalizers, **more):
    return {"apiVersion": "elasticgpu.io/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "team", "finalizers": list(finalizers)}, **more}


def pod(name, phase):
    return {"metadata": {"namespace": "team", "name": name}, "status": {"phase": phase}}


CLASS = made("ElasticGPUClass", "remote", provisioner="elasticgpu.io/remote")
GOOD = {"pods": [pod("done", "Succeeded"), pod("broken", "Failed")],
        "elasticgpuclaims": [made("ElasticGPUClaim", "held", "theirs.example/keep", FINALIZER),
                             made("ElasticGPUClaim", "other", "theirs.example/keep")],
        "elasticgpus": [], "elasticgpuclasses": [CLASS]}


class Cluster:
    def __init__(self, case, **objects):
        self.case, self.folder = case, case.folder / "kubectl"
        self.folder.mkdir()
        (self.folder / "objects.json").write_text(json.dumps({**GOOD, **objects}))
        program = self.folder / "kubectl"
        program.write_text(KUBECTL.format(python=sys.executable, folder=str(self.folder)))
        program.chmod(0o755)
        self.manifest = case.folder / "kube.yaml"
        self.manifest.write_text(MANIFEST)

    def kube(self, *words, status=0):
        return self.case.run([self.case.build / "bin/gpupool", "kube", *words], status=status,
                             env={"PATH": f"{self.folder}:{os.environ['PATH']}"})

    def uninstall(self, *options, status=0):
        return self.kube("uninstall", "--manifest", self.manifest, *options, status=status)

    def calls(self, verb):
        """The words and the input of each call of @verb."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [(" ".join(words), text) for words, text in map(json.loads, lines)
                if words[0] == verb]


def test_nothing_is_removed_while_pods_use_the_pool(case):
    cluster = Cluster(case, pods=[pod("train", "Running"), pod("done", "Succeeded")])
    said = cluster.uninstall(status=1).err
    case.contains(said, "1 pod of the cluster uses the pool (team/train)", "who uses it")
    case.contains(said, "--force", "the way on")
    case.equal(cluster.calls("delete"), [], "what was deleted all the same")
    cluster.uninstall("--force")
    case.check(cluster.calls("delete"), "nothing was deleted, though it was asked for")


def test_finalizers_are_taken_from_what_no_controller_ends(case):
    cluster = Cluster(case)
    cluster.uninstall()
    sent = [item for _, text in cluster.calls("replace") for item in json.loads(text)["items"]]
    case.equal([(o["metadata"]["name"], o["metadata"]["finalizers"]) for o in sent],
               [("held", ["theirs.example/keep"])], "what was released, and what of it")
    ended = [item["metadata"]["name"] for words, text in cluster.calls("delete")
             if '"List"' in text for item in json.loads(text)["items"]]
    case.equal(ended, ["held", "remote"], "what was deleted before its kind")


def test_everything_of_the_manifest_goes_and_its_kinds_last(case):
    cluster = Cluster(case)
    cluster.uninstall()
    deleted = cluster.calls("delete")
    case.contains(deleted[0][0], "mutatingwebhookconfiguration gpupool", "the first")
    case.contains(deleted[-1][0], "delete crd elasticgpuclaims.elasticgpu.io", "the last")
    manifest = next(text for _, text in deleted if "kind: Namespace" in text)
    case.contains(manifest, "kind: Deployment", "what was in the manifest")
    for kind in ("CustomResourceDefinition", "ElasticGPUClass"):
        case.check(kind not in manifest, f"{kind}: kubectl stops where its kind is gone")


def test_kinds_that_another_provisioner_has_classes_of_stay(case):
    other = made("ElasticGPUClass", "local", provisioner="elasticgpu.io/local")
    cluster = Cluster(case, elasticgpuclasses=[CLASS, other])
    case.contains(cluster.uninstall().out, "ElasticGPUClass local is of another provisioner",
                  "why they stay")
    case.check(not [words for words, _ in cluster.calls("delete") if " crd " in words],
               "the kinds were deleted under another provisioner")


def test_uninstall_goes_on_where_kinds_are_gone_already(case):
    cluster = Cluster(case, elasticgpuclaims=None, elasticgpus=None, elasticgpuclasses=None)
    case.contains(cluster.uninstall().out, "Uninstalled", "what it says")
    case.equal(cluster.calls("replace"), [], "what was released")


def test_install_without_its_manifest_says_where_to_get_one(case):
    cluster = Cluster(case)  # the build folder has no share/gpupool
    for verb in ("install", "uninstall"):
        case.contains(cluster.kube(verb, status=1).err,
                      "deploy/render >kube.yaml, and name it with --manifest kube.yaml", verb)


def test_a_kind_that_has_just_been_deleted_has_no_objects(case):
    """kubectl remembers for minutes which kinds a cluster has."""
    cluster = Cluster(case, elasticgpus=(
        'Error from server (NotFound): Unable to list "elasticgpu.io/v1alpha1, '
        'Resource=elasticgpus": the server could not find the requested resource '
        "(get elasticgpus.elasticgpu.io)"))
    cluster.uninstall()


def test_what_cannot_be_read_is_not_taken_for_nothing(case):
    """The kinds of another provisioner go with all of its objects; a cluster that does not
    answer may have one."""
    fault = "The connection to the server 10.0.0.1:6443 was refused"
    for kind in ("elasticgpuclasses", "elasticgpuclaims", "elasticgpus", "pods"):
        cluster = Cluster(case, **{kind: fault})
        done = cluster.uninstall(status=1)
        case.contains(done.err, fault, f"what it says when {kind} cannot be read")
        case.equal([words for words, _ in cluster.calls("delete") if " crd " in words], [],
                   "deleted kinds")
        cluster.folder.rename(case.folder / f"kubectl-{kind}")
