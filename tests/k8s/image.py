# SPDX-License-Identifier: Apache-2.0
"""Container images from files of the build, without a container engine.

An image is one layer in docker-save layout: the programs given, the shared libraries
that the loader finds for them, a passwd file and a /tmp.  Nothing is pulled.
"""
import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path


def libraries(program, without=()):
    """What the loader would map for @program, as {path in the image: path here}."""
    out = subprocess.run(["ldd", str(program)], check=False, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    found = {}
    for line in out.splitlines():
        match = re.search(r"(?:(\S+) => )?(/\S+) \(0x", line)
        if match and Path(match.group(2)).name not in without:
            found[match.group(2)] = match.group(2)
    return found


def build(path, name, files, without=()):
    """Write the image @name with @files ({path in the image: path here}) to @path."""
    everything = {}
    for target, source in files.items():
        everything.update(libraries(source, without))
        everything[target] = source
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        seen = set()

        def folder(where, mode=0o755):
            for parent in [*reversed(Path(where).parents), Path(where)]:
                text = str(parent).strip("/")
                if text and text not in seen:
                    seen.add(text)
                    info = tarfile.TarInfo(text)
                    info.type, info.mode = tarfile.DIRTYPE, mode if parent == Path(where) else 0o755
                    tar.addfile(info)

        def text(where, content):
            folder(Path(where).parent)
            info = tarfile.TarInfo(where.strip("/"))
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))

        folder("/tmp", 0o1777)
        text("/etc/passwd", b"root:x:0:0::/:/sbin/nologin\nnobody:x:65532:65532::/:/sbin/nologin\n")
        for target, source in sorted(everything.items()):
            folder(Path(target).parent)
            data = Path(source).read_bytes()
            info = tarfile.TarInfo(target.strip("/"))
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    layer = layer.getvalue()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name],
                            "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in (("layer.tar", layer), ("config.json", config),
                             ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
