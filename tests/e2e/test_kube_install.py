# SPDX-License-Identifier: Apache-2.0
"""`gpupool kube install` over a pool of a version that kept the scheduler's key in its pod;
a double of kubectl stands for the cluster."""

import base64
import json
import os
import sys

KUBECTL = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
with open(folder / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
state = json.loads((folder / "state.json").read_text())
verb = sys.argv[1]
if verb == "exec":
    if state["key"] is None:
        sys.exit("error: unable to upgrade connection: container not found")
    print(state["key"], end="")
elif verb == "get" and sys.argv[2] == "secret":
    print(json.dumps(state["secret"]))
elif verb == "get" and sys.argv[2] == "pod":
    if state["pod"] is None:
        sys.exit("Unable to connect to the server")
    print(state["pod"])
elif verb == "replace":
    (folder / "secret.json").write_text(sys.stdin.read())
elif verb == "apply":
    sys.stdin.read()
"""
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gpupool-tokens"},
          "data": {"admin": base64.b64encode(b"secret").decode()}}


class Old:
    """A cluster whose Secret has no key yet, but what @has says."""

    def __init__(self, case, pod, key=None, has=None):
        self.case, self.folder = case, case.folder / "kubectl"
        self.folder.mkdir()
        data = {name: base64.b64encode(text.encode()).decode()
                for name, text in (has or {}).items()}
        secret = {**SECRET, "data": {**SECRET["data"], **data}}
        (self.folder / "state.json").write_text(json.dumps({"secret": secret, "pod": pod,
                                                            "key": key}))
        program = self.folder / "kubectl"
        program.write_text(KUBECTL.format(python=sys.executable, folder=str(self.folder)))
        program.chmod(0o755)
        self.manifest = case.folder / "kube.yaml"
        self.manifest.write_text("kind: List\n")

    def install(self, *options, status=0):
        return self.case.run([self.case.build / "bin/gpupool", "kube", "install", "--manifest",
                              self.manifest, *options], status=status,
                             env={"PATH": f"{self.folder}:{os.environ['PATH']}"})

    def key(self):
        """The key that the Secret was given, or None."""
        path = self.folder / "secret.json"
        return json.loads(path.read_text())["stringData"]["ticket-key"] if path.exists() else None

    def secret(self):
        return json.loads((self.folder / "secret.json").read_text())

    def calls(self):
        return (self.folder / "calls").read_text()


def test_key_of_the_scheduler_that_runs_is_kept(case):
    pem = case.run(["openssl", "genpkey", "-algorithm", "ed25519"]).out
    cluster = Old(case, pod="pod/gpupool-scheduler-0", key=pem)
    cluster.install()
    case.equal(cluster.key(), pem, "the key in the Secret")


def test_new_key_is_made_where_there_is_no_scheduler(case):
    cluster = Old(case, pod="")
    case.contains(cluster.install().out, "The scheduler gets a new key", "what it says")
    case.contains(cluster.key(), "PRIVATE KEY", "the key in the Secret")


def test_key_that_cannot_be_read_is_not_replaced_unless_asked_for(case):
    cluster = Old(case, pod="pod/gpupool-scheduler-0")
    said = cluster.install(status=1).err
    case.contains(said, "container not found", "why")
    case.contains(said, "--new-key", "the way on")
    case.equal(cluster.key(), None, "the Secret was left as it was")
    case.check("apply" not in cluster.calls(), "something was installed all the same")
    cluster.install("--new-key")
    case.contains(cluster.key(), "PRIVATE KEY", "the key in the Secret, as asked for")


def test_key_is_not_replaced_where_nobody_says_whether_a_scheduler_runs(case):
    cluster = Old(case, pod=None)
    case.contains(cluster.install(status=1).err, "Unable to connect", "why")
    case.equal(cluster.key(), None, "the Secret was left as it was")


def test_extender_gets_a_token_that_lets_it_read_and_nothing_else(case):
    pem = case.run(["openssl", "genpkey", "-algorithm", "ed25519"]).out
    has = {"ticket-key": pem, "ticket-key.pub": "public", "users": "alice:open,read:0123456789"}
    cluster = Old(case, pod="", has=has)
    cluster.install()
    added = cluster.secret()["stringData"]
    case.equal(sorted(added), ["extender", "users"], "what the Secret is given")
    case.equal(added["users"].split("\n"),
               [has["users"], f"extender:read:{added['extender']}", ""], "users")
    case.equal(len(added["extender"]), 64, "length of its token")


def test_secret_that_is_whole_is_left_alone(case):
    pem = case.run(["openssl", "genpkey", "-algorithm", "ed25519"]).out
    cluster = Old(case, pod="", has={"ticket-key": pem, "ticket-key.pub": "public",
                                     "extender": "token", "users": "extender:read:token"})
    cluster.install()
    case.check(" replace " not in cluster.calls() and not cluster.calls().startswith("replace"),
               f"it was replaced: {cluster.calls()}")
