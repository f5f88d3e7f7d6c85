# SPDX-License-Identifier: Apache-2.0
"""The client with several servers: which of them a call's arguments belong to."""

from __future__ import annotations

from .abi import Abi
from .codec import struct_rules
from .ctypes_ import INTEGER_HANDLES, is_handle, kind_of, prototype
from .emit import Text
from .model import Api, Call, Param

CODE = ("func", "kernel")


def handle_of(p: Param) -> str:
    """A handle parameter as a number."""
    return f"(uint64_t){p.name}" if p.type.word in INTEGER_HANDLES else f"(uintptr_t){p.name}"


def routed(p: Param) -> bool:
    """Does the client know from the handle whose it is?"""
    plain = p.type.word not in ("texobj", "surfobj", "condition")
    return p.dir == "in" and is_handle(p.type) and plain


def _handles(call: Call) -> list[str]:
    """Objects first, then streams: the stream of a mixed call is the mistake."""
    known = [p for p in call.args if routed(p) and p.type.word not in CODE]
    known.sort(key=lambda p: p.type.word == "stream")
    return [
        f"stub_route_handle(&route, {kind_of(p.type)}, {handle_of(p)});" for p in known
    ]


def _struct_devices(api: Api, abi: Abi, p: Param) -> list[str]:
    dot = "." if p.by_value else "->"
    lines = []
    for r in struct_rules(api, abi, p.type.name):
        if r.kind != "device":
            continue
        tests = [] if p.by_value else [p.name]
        if r.when_field:
            tests.append(f"{p.name}{dot}{r.when_field} == {r.when_value}")
        test = " && ".join(tests)
        lines.append(f"if ({test})" if test else "")
        lines.append(f"    stub_route_device(&route, {p.name}{dot}{r.field});")
    return [line for line in lines if line]


def _places(api: Api, abi: Abi, call: Call) -> list[str]:
    """Addresses, devices, and the functions of modules."""
    lines = []
    what = "owner" if call.home else "address"
    for p in call.args:
        if p.dir == "in" and p.type.word == "devptr":
            lines.append(f"stub_route_{what}(&route, {p.name});")
    for p in call.args:
        if p.dir == "in" and p.type.word == "device":
            lines.append(f"stub_route_device(&route, {p.name});")
        elif p.dir == "in" and p.type.word == "struct":
            lines += _struct_devices(api, abi, p)
    for p in call.args:
        if p.dir == "in" and p.type.word in CODE:
            lines.append(f"stub_route_func(&route, {handle_of(p)});")
    return lines


def _of_its_own(call: Call) -> bool:
    """An older form calls the newer one, which finds its way by itself."""
    return not (call.alias or call.refused or call.uncarried)


def _replicas(call: Call) -> list[str]:
    """Code of a library is on every server: the handle that is meant here."""
    if not _of_its_own(call):
        return []
    words = CODE + (("library",) if call.links == "here" else ())
    lines = []
    for p in call.args:
        if p.dir == "in" and p.type.word in words:
            which = "library" if p.type.word == "library" else "func"
            lines.append(
                f"{p.name} = (__typeof__({p.name}))(uintptr_t)"
                f"stub_replica_{which}({handle_of(p)});"
            )
    return lines


def _routes(api: Api, abi: Abi, call: Call) -> list[str]:
    if call.links == "here" or not _of_its_own(call):
        return []
    return _handles(call) + _places(api, abi, call)


def cross_prototype(call: Call, extra: str) -> str:
    """What is written by hand for calls whose arguments may be of two servers."""
    text = prototype(call, f"stub_multi_{call.name}", extra)
    return "bool " + text.replace("(", "(CUresult *ret, ", 1)


def emit_call(t: Text, api: Api, abi: Abi, call: Call, body: str, cross: str) -> None:
    """Into ret: the body, at the server that the arguments belong to."""
    lines = _routes(api, abi, call)
    replicas = _replicas(call)
    indent = "    "
    if call.links == "cross":
        t(f"    if (stub_links_n == 1 || !{cross}) {{")
        indent = "        "
    if lines:
        t(*(f"{indent}{line}" for line in lines))
        t(f"{indent}stub_link_switch_begin(&link_switch, &route);")
    t(*(f"{indent}{line}" for line in replicas))
    t(f"{indent}ret = {body};")
    if lines:
        t(f"{indent}stub_link_switch_end(&link_switch);")
    if call.links == "cross":
        t("    }")


def needs_route(api: Api, abi: Abi, call: Call) -> bool:
    """Do the arguments say anything about servers?"""
    return bool(_routes(api, abi, call))
