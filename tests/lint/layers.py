# SPDX-License-Identifier: Apache-2.0
"""The layers inside the components: who may include whom.

COMPONENTS names each component's folders from the lowest layer to the highest.  A file
includes headers of its own folder and of folders below it, and of what `sees` lists: the
components below.  A module is a .c file with the header of its name, wherever the two
are; no two modules may include each other, directly or through others.  To add a
component, add its row.

A folder in a tuple with others shares their layer: the members may include each other,
but modules in them must not form a cycle either.
"""

import re
from pathlib import Path

# component: the layers, lowest first, and the folders below the component
COMPONENTS = {
    "softgpu/ptx": {
        "layers": ["softgpu/ptx"],
        "sees": ["common"],
    },
    "softgpu/exec": {
        "layers": ["softgpu/exec/bytecode", "softgpu/exec/memory", "softgpu/exec",
                   "softgpu/exec/lowering", "softgpu/exec/runtime",
                   "softgpu/exec/interpreter"],
        "sees": ["softgpu/ptx", "common"],
    },
    "softgpu/api": {
        "layers": ["softgpu/api/core", "softgpu/api/device", "softgpu/api/context",
                   "softgpu/api/streams", "softgpu/api/memory", "softgpu/api/modules",
                   "softgpu/api/graphs", "softgpu/api/entry"],
        "sees": ["softgpu/exec", "softgpu/exec/memory", "softgpu/ptx", "proto", "common"],
    },
    "client-stub": {
        "layers": ["client-stub/base", "client-stub/link", "client-stub/device",
                   "client-stub/streams", "client-stub/memory", "client-stub/modules",
                   "client-stub/graphs", "client-stub/transfer",
                   "client-stub/multiserver", "client-stub/export_tables",
                   "client-stub/entry"],
        "sees": ["common", "proto", "transport"],
    },
    # Another library, which knows one table of the stub's.
    "client-stub/nvml": {
        "layers": ["client-stub/nvml"],
        "sees": ["client-stub/export_tables", "common", "proto"],
    },
    "client-stub/nvrtc": {
        "layers": ["client-stub/nvrtc"],
        "sees": ["common"],
    },
    # Of the pool server, what both its processes include.
    "server/base": {
        "layers": ["server/base", "server/arbiter"],
        "sees": ["common", "proto", "transport"],
    },
    "server/kernel_params": {
        "layers": ["server/kernel_params"],
        "sees": ["common"],
    },
    "server/supervisor": {
        "layers": ["server/supervisor"],
        "sees": ["server/arbiter", "server/base", "common", "proto", "transport"],
    },
    # The worker: one process for each client process.
    "worker": {
        "layers": ["server/sandbox", "server/link", "server/objects", "server/quota",
                   "server/scheduling", "server/transfer", "server/modules",
                   "server/calls", "server/entry"],
        "sees": ["server/kernel_params", "server/arbiter", "server/base", "common", "proto",
                 "transport"],
    },
    # The scheduler; of the Kubernetes side it uses what asks an API server.
    "pool-scheduler": {
        "layers": ["pool-scheduler/kube", "pool-scheduler"],
        "sees": ["common", "proto"],
    },
    "drivers/null": {
        "layers": ["drivers/null"],
        "sees": ["server/kernel_params", "common", "proto"],
    },
}

INCLUDE_RE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


class Tree:
    """The C files of all components, and what each of them includes."""

    def __init__(self, files):
        self.includes = {}  # path -> [(line, included name)]
        self.headers = {}  # file name -> path
        for path in files:
            if path.suffix not in {".c", ".h", ".def"} or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            self.headers.setdefault(path.name, path)
            self.includes[path] = [(text.count("\n", 0, match.start()) + 1, match.group(1))
                                   for match in INCLUDE_RE.finditer(text)]

    def edges(self, path):
        for line, name in self.includes[path]:
            target = self.headers.get(name)
            if target is not None:
                yield line, target


def rank_of(layers, folder):
    """The number of the layer that @folder is in, or None."""
    for rank, layer in enumerate(layers):
        if folder == layer or (isinstance(layer, tuple) and folder in layer):
            return rank
    return None


def component_of(components, folder):
    for name, component in components.items():
        if rank_of(component["layers"], folder) is not None:
            return name
    return None


def check_upward(components, tree, found):
    """An include of a layer above, or of a component that this one does not see."""
    for path in sorted(tree.includes):
        name = component_of(components, str(path.parent))
        if name is None:
            continue
        layers = components[name]["layers"]
        rank = rank_of(layers, str(path.parent))
        for line, target in tree.edges(path):
            folder = str(target.parent)
            other = rank_of(layers, folder)
            if other is not None and other > rank:
                found(path, line, f"upward include: {path.parent} is a layer below {folder}"
                                  f" ({target.name})")
            elif other is None and not sees(components[name], folder):
                found(path, line, f"{name} does not see {folder} ({target.name})")


def sees(component, folder):
    return folder in component["sees"]


def module_edges(components, tree, name):
    """module -> {module: the first (path, line) that includes it}, in one component."""
    edges = {}
    for path in sorted(tree.includes):
        if path.suffix == ".def" or component_of(components, str(path.parent)) != name:
            continue
        mine = edges.setdefault(path.stem, {})
        for line, target in tree.edges(path):
            if target.suffix == ".h" and target.stem != path.stem and \
                    component_of(components, str(target.parent)) == name:
                mine.setdefault(target.stem, (path, line))
    return edges


def cycles(edges):
    """One cycle for each set of modules that reach each other: [a, b, ..., a]."""
    done = set()
    result = []
    for start in sorted(edges):
        if start in done:
            continue
        way = shortest_way_back(edges, start)
        if way:
            result.append(way)
            done.update(way)
    return result


def shortest_way_back(edges, start):
    came_from = {}
    todo = [start]
    while todo:
        module = todo.pop(0)
        for target in sorted(edges.get(module, {})):
            if target == start:
                way = [start]
                while module != start:
                    way.insert(0, module)
                    module = came_from[module]
                return [start] + way
            if target not in came_from:
                came_from[target] = module
                todo.append(target)
    return None


def check_cycles(components, tree, found):
    for name in components:
        edges = module_edges(components, tree, name)
        for way in cycles(edges):
            path, line = edges[way[0]][way[1]]
            found(path, line, "include cycle: " + " -> ".join(way))


def check(files, found, components=None):
    """Calls found(path, line, words) for each include that breaks a rule."""
    components = COMPONENTS if components is None else components
    folders = [folder for component in components.values() for layer in component["layers"]
               for folder in (layer if isinstance(layer, tuple) else (layer,))]
    folders += [below for component in components.values() for below in component["sees"]]
    tree = Tree([path for path in map(Path, files) if str(path.parent) in folders])
    check_upward(components, tree, found)
    check_cycles(components, tree, found)
