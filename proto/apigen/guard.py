# SPDX-License-Identifier: Apache-2.0
"""A driver's table in which every function looks at the pointers that it is given.

What is a pointer or a handle follows from the description; whether one may be there is
for tests/fuzz/guard.c to say.
"""

from __future__ import annotations

from .abi import Abi, Struct
from .codec import Codecs, struct_rules
from .ctypes_ import c_type, is_handle
from .emit import Output, Text
from .model import Api, Call, Param, Rule


# Values of a driver's that a client hands back as they are (wrk_opaque.h).
OBJECTS = ("texobj", "surfobj")
RESOURCE = "CUdevResource"


def _value(expression: str) -> str:
    return f"(uint64_t)(uintptr_t){expression}"


class Guard:
    """Emits the checks of structures, then one function per call."""

    def __init__(self, codecs: Codecs) -> None:
        self.api: Api = codecs.api
        self.abi: Abi = codecs.abi
        self.done: set[str] = set()

    def rules(self, name: str) -> list[Rule]:
        """What the description says of a structure's fields."""
        return struct_rules(self.api, self.abi, name)

    def pointers(self, s: Struct, prefix: str = "") -> list[str]:
        """Fields that no rule speaks of, outside of unions."""
        found: list[str] = []
        for f in s.fields:
            if isinstance(f.type, Struct):
                if not f.type.union:
                    inner = f"{prefix}{f.name}." if f.name else prefix
                    found += self.pointers(f.type, inner)
            elif f.pointer or self.abi.base(f.type) in self.abi.pointers:
                found.append(prefix + f.name)
            elif self.abi.base(f.type) in self.abi.structs:
                inner_s = self.abi.structs[self.abi.base(f.type)]
                if not inner_s.union:
                    found += self.pointers(inner_s, f"{prefix}{f.name}.")
        return found

    def struct(self, t: Text, name: str) -> bool:
        """guard_<structure>(), before whoever calls it; False: nothing to look at."""
        base = self.abi.base(name)
        rules = self.rules(name)
        covered = {r.field for r in rules}
        rest = [] if "*" in covered else self.pointers(self.abi.struct(name))
        rest = [f for f in rest if f not in covered]
        if not rest and not any(
            r.kind in ("handle", "array", "manual", "zero") for r in rules
        ):
            return False
        if base in self.done:
            return True
        self.done.add(base)
        for r in rules:
            if r.kind == "array" and r.elem and r.elem.word == "struct":
                self.struct(t, r.elem.name)
        t("static void", f"look_{base}(const {base} *s)", "{")
        if any(f.name == "srcMemoryType" for f in self.abi.struct(name).fields):
            t("    guard_memory_type((int)s->srcMemoryType);")
            t("    guard_memory_type((int)s->dstMemoryType);")
        for r in rules:
            self._rule(t, base, r)
        for field in rest:
            t(f'    guard_pointer("{base}.{field}", {_value(f"s->{field}")});')
        t("}", "")
        return True

    def _rule(self, t: Text, base: str, r: Rule) -> None:
        what = f'"{base}.{r.field}", {_value(f"s->{r.field}")}'
        when = f"if (s->{r.when_field} == {r.when_value}) " if r.when_field else ""
        if r.kind == "handle":
            t(f"    {when}guard_handle({what});")
        elif r.kind == "manual" and r.field == "*":
            t("    guard_node(s);")
        elif r.kind in ("manual", "zero"):
            t(f"    {when}guard_pointer({what});")
        elif r.kind == "array":
            assert r.elem
            t(f"    guard_pointer({what});")
            inner = self.abi.base(r.elem.name)
            if inner in self.done:
                t(f"    for (size_t i = 0; s->{r.field} && i < s->{r.elem.count}; i++)")
                t(f"        look_{inner}(&s->{r.field}[i]);")

    # ---- calls ----------------------------------------------------------------------

    def count(self, c: Call, p: Param) -> str:
        """How many elements an array has, where a parameter says so."""
        name, _, minus = p.type.count.partition("-")
        of = c.param(name)
        if name.isdigit() or not of or of.wire_only:
            return name if name.isdigit() else ""
        value = f"({name} ? (uint64_t)*{name} : 0)" if "*" in c_type(of) else f"(uint64_t){name}"
        return f"guard_minus({value}, {minus})" if minus else value

    def before(self, t: Text, c: Call, p: Param) -> None:
        """Look at one argument."""
        name, ctype = p.name, c_type(p)
        goes = p.dir in ("in", "inout")
        if is_handle(p.type) and "*" not in ctype:
            t(f'    guard_handle("{name}", {_value(name)});')
            return
        if p.type.word in OBJECTS and goes:
            t(f'    guard_object("{name}", {name});')
            return
        if p.type.word in ("devptr", "devptr32", "address"):
            if "*" not in ctype or p.type.word == "address":
                return
        if p.type.word == "struct" and p.by_value:
            return
        if "*" in ctype or p.type.word in ("callback", "host", "table"):
            t(f'    guard_pointer("{name}", {_value(name)});')
        if not goes:
            return
        if p.type.word == "struct" and p.type.name == RESOURCE:
            t(f"    if ({name})", f"        guard_resource({name});")
        elif p.type.word == "struct" and self.struct(Text(), p.type.name):
            t(f"    if ({name})", f"        look_{self.abi.base(p.type.name)}({name});")
        elem = p.type.elem
        if p.type.word == "array" and elem and self.count(c, p):
            loop = f"    for (uint64_t i = 0; {name} && i < {self.count(c, p)}; i++)"
            if is_handle(elem):
                t(loop, f'        guard_handle("{name}", {_value(f"{name}[i]")});')
            elif elem.word == "struct" and elem.name == RESOURCE:
                t(loop, f"        guard_resource(&{name}[i]);")
            elif elem.word == "struct" and self.struct(Text(), elem.name):
                t(loop, f"        look_{self.abi.base(elem.name)}(&{name}[i]);")

    def after(self, t: Text, c: Call, p: Param) -> None:
        """Remember the handles, objects and resources that the driver gives."""
        elem = p.type.elem
        if p.dir not in ("out", "inout"):
            return
        if p.type.word in OBJECTS:
            t(f"    if (r == CUDA_SUCCESS && {p.name})", f"        guard_made(*{p.name});")
        if p.type.word == "struct" and p.type.name == RESOURCE:
            t(f"    if (r == CUDA_SUCCESS && {p.name})")
            t(f"        guard_made_resource({p.name});")
        if p.type.word == "array" and elem and elem.word == "struct" and elem.name == RESOURCE:
            t("    if (r == CUDA_SUCCESS)")
            t(f"        for (uint64_t i = 0; {p.name} && i < {self.count(c, p)}; i++)")
            t(f"            guard_made_resource(&{p.name}[i]);")
        if is_handle(p.type) and "*" in c_type(p):
            t(f"    if (r == CUDA_SUCCESS && {p.name})")
            t(f"        guard_given({_value(f'*{p.name}')});")
        elif p.type.word == "array" and elem and is_handle(elem) and self.count(c, p):
            t("    if (r == CUDA_SUCCESS)")
            t(f"        for (uint64_t i = 0; {p.name} && i < {self.count(c, p)}; i++)")
            t(f"            guard_given({_value(f'{p.name}[i]')});")

    def agree(self, t: Text, c: Call) -> None:
        """What the driver lacks succeeds nevertheless where only handles come out, so that
        calls which need them get further than their lookup."""
        outs = [p for p in c.args if p.dir in ("out", "inout")]
        if not all(is_handle(p.type) and "*" in c_type(p) for p in outs):
            return
        t("    if (r == CUDA_ERROR_NOT_SUPPORTED) {", "        r = CUDA_SUCCESS;")
        for p in outs:
            kind = c_type(p).replace("*", "").strip()
            t(f"        if ({p.name})")
            t(f"            *{p.name} = ({kind})guard_new();")
        t("    }")

    def call(self, t: Text, c: Call) -> None:
        """The function that stands before a driver's."""
        names = ", ".join(p.name for p in c.args)
        args = ", ".join(
            c_type(p) + p.name if c_type(p).endswith("*") else f"{c_type(p)} {p.name}"
            for p in c.args
        )
        t("static CUresult", f"g_{c.name}({args or 'void'})", "{", "    CUresult r;", "")
        t(f'    guard_call("{c.name}");')
        for p in c.args:
            self.before(t, c, p)
        if c.param("attr") and any(
            p.dir == "in" and p.type.word == "struct"
            and self.abi.base(p.type.name) == "CUlaunchAttributeValue" for p in c.args
        ):
            value = next(p.name for p in c.args if p.type.word == "struct")
            t(f"    guard_attribute((int)attr, {value});")
        t(f"    r = real.{c.name}({names});")
        self.agree(t, c)
        for p in c.args:
            self.after(t, c, p)
        t("    return r;", "}", "")


def emit(out: Output, codecs: Codecs) -> None:
    """guard_calls.c"""
    g, t = Guard(codecs), Text()
    calls = [c for c in codecs.api.calls if not c.internal and not c.outside]
    t('#include "guard.h"', '#include "drv.h"', "", "static struct drv real;", "")
    for c in calls:
        for p in c.args:
            kind = p.type.elem or p.type
            if kind.word == "struct" and p.dir in ("in", "inout"):
                g.struct(t, kind.name)
    for c in calls:
        g.call(t, c)
    t("void", "guard_prefer(struct drv *drv)", "{", "    real = *drv;")
    for c in calls:
        t(f"    if (drv->{c.name})", f"        drv->{c.name} = g_{c.name};")
    t("}")
    out.c_file("guard_calls.c", "A driver that looks at every pointer.", t)
