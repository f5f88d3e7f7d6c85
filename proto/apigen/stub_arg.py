# SPDX-License-Identifier: Apache-2.0
"""The client's side of a parameter: checks, stores, loads."""

from __future__ import annotations

from .abi import Abi
from .codec import Body, struct_rules
from .ctypes_ import INTEGER_HANDLES, c_type, is_handle, is_scalar, kind_of, value_type
from .ctypes_ import wire_bytes, wire_type
from .emit import Text
from .model import Api, Call, Param

STREAM_FIELD = "stream"


def element_size(p: Param) -> str:
    """sizeof one element of an array, on both sides the same."""
    t = p.type.elem
    if not t:
        return "1"
    return f"sizeof({t.name})" if t.word == "struct" else str(wire_bytes(t))


def counted(p: Param) -> str:
    """How many elements the caller means, as an expression of the C parameters."""
    name, _, minus = p.type.count.partition("-")
    if minus:
        return f"(uint64_t)({name} > {minus} ? {name} - {minus} : 0)"
    return f"(uint64_t){name}"


def has_devices(api: Api, abi: Abi, name: str) -> bool:
    """Does a structure hold device ordinals, which each side numbers its own way?"""
    return any(r.kind == "device" for r in struct_rules(api, abi, name))


class StubArg:
    """Emits what one parameter needs in a generated stub."""

    def __init__(self, api: Api, abi: Abi, call: Call, req: Body, rep: Body) -> None:
        self.api, self.abi, self.call, self.req, self.rep = api, abi, call, req, rep

    def count(self, p: Param) -> str:
        """counted(), through the pointer when the count is an inout parameter."""
        name = p.type.count.partition("-")[0]
        if name.isdigit():
            return name
        other = self.call.param(name)
        if other and other.dir == "inout":
            return f"(uint64_t)*{name}"
        return counted(p)

    def has_room(self, p: Param) -> bool:
        """Is it an output for which the caller says by an inout parameter how much it has
        room for?  Room for more than a frame carries is no mistake: what there is may be
        less."""
        other = self.call.param(p.type.count) if p.type.count else None
        return bool(p.comes and p.max and other and other.dir == "inout")

    def asked(self, p: Param) -> str:
        """How many elements of such an output the server is asked for."""
        return f"stub_gen_at_most({self.count(p)}, {p.max})"

    def _most(self, count: Param) -> int:
        """The most elements that a frame carries of the outputs with this count."""
        rooms = [
            p.max
            for p in self.call.args
            if self.has_room(p) and p.type.count == count.name
        ]
        return min(rooms, default=0)

    # ---- before the frame -------------------------------------------------------

    def check_handle(self, t: Text, p: Param) -> None:
        """Refuse a handle that is none; drivers look at handles first."""
        if p.dir == "in" and is_handle(p.type):
            self._check_handle(t, p)

    def check_device(self, t: Text, p: Param) -> None:
        """Negative ones have meanings of their own; beside an address, that is looked at
        first."""
        if p.dir != "in" or p.type.word != "device":
            return
        if all(q.type.word != "devptr" for q in self.call.args):
            t(
                f"    if ({p.name} >= 0 && !stub_device_get({p.name}))",
                "        return stub_device_refusal();",
            )

    def check(self, t: Text, p: Param) -> None:
        """Refuse what the driver would refuse, while it can still be said."""
        word = p.type.word
        pointer = c_type(p).endswith("*") and word != "address"
        if word in ("array", "bytes") and not p.type.count.isdigit():
            pass  # check_count()
        elif pointer and not p.optional:
            t(f"    if (!{p.name})", "        return CUDA_ERROR_INVALID_VALUE;")
        if word == "flags" and self.call.reply == "none":
            self._check_flags(t, p)
        if word == "sized":
            t(
                f"    {p.name}_size = stub_size_{self.sized(p)}({p.type.count});",
                f"    if (!{p.name}_size)",
                "        return CUDA_ERROR_INVALID_VALUE;",
            )

    def check_count(self, t: Text, p: Param) -> None:
        """Counts come last: they may be behind pointers, which check() has looked at."""
        if p.type.word in ("array", "bytes") and not p.type.count.isdigit():
            self._check_array(t, p)

    def doubts(self, p: Param) -> list[str]:
        """Tests for arguments that are wrong, or that only the driver can judge."""
        if p.client or p.dir != "in":
            return []
        if p.type.word == "devptr" and self.call.name.startswith(
            ("cuStreamWriteValue", "cuStreamWaitValue")
        ):
            size = 8 if "64" in self.call.name else 4
            return [f"!stub_memory_takes_values({p.name}, {size})"]
        if p.type.word == "devptr":
            return [f"!stub_memory_is_plausible({p.name})"]
        if p.shared:
            return [f"stub_event_asks({p.name}, {self._recorded_in()})"]
        if p.type.elem and p.type.elem.name == "CUstreamBatchMemOpParams":
            return [
                "flags != 0",
                f"!stub_memory_takes_batch({p.name}, {self.count(p)})",
            ]
        if p.type.word == "array" and not p.optional:
            return [f"!({self.count(p)})"]
        if p.name == "count" and self.call.name.startswith("cuUserObjectRe"):
            return ["!count"]
        if p.life == "del" and p.type.word in ("texobj", "surfobj"):
            return ["true"]  # the driver's own value, which the stub does not know
        return self._refusals(p) if p.life == "del" and is_handle(p.type) else []

    def _refusals(self, p: Param) -> list[str]:
        """Tests for objects that a driver may refuse to destroy: parts of others, which
        only a query reveals, default pools, and graphs that are captured into.  What a
        capture forbids is waited for without a test of its own."""
        if p.type.word == "mempool":
            return ["true"]
        part = f"wire_handle_index({self.id_of(p)}) >= WIRE_INDEX_SERVER"
        if p.type.word == "graph":
            return [part, "stub_capture_any()"]
        return [part] if p.type.word in ("cuarray", "mipmap", "module", "texref") else []

    def _recorded_in(self) -> str:
        """The handle of the stream, or of the context, that an event is recorded in."""
        p = next(p for p in self.call.args if p.type.word in ("stream", "ctx"))
        return f"WIRE_KIND_{p.type.word.upper()}, " + (
            f"{p.name}_id" if p.type.word == "stream" else f"(uintptr_t){p.name}"
        )

    def _check_flags(self, t: Text, p: Param) -> None:
        """Nobody would hear of it otherwise: the call has no answer."""
        mask = 0
        for _, value in self.abi.enums[self.abi.base(p.type.name)]:
            mask |= value
        t(
            f"    if ({p.name} & ~{mask:#x}u)",
            "        return CUDA_ERROR_INVALID_VALUE;",
        )

    def sized(self, p: Param) -> str:
        """The enumeration whose values decide the size of p."""
        other = self.call.param(p.type.count)
        assert other
        return other.type.name

    def _check_array(self, t: Text, p: Param) -> None:
        count = self.count(p)
        limit = p.max or "WIRE_BODY_MAX"
        if p.optional:
            count = f"({p.name} ? {count} : 0)"
        else:
            t(
                f"    if (!{p.name} && {count})",
                "        return CUDA_ERROR_INVALID_VALUE;",
            )
        if self.has_room(p):
            return
        answer = (
            "CUDA_ERROR_INVALID_VALUE"
            if p.most
            else f"stub_gen_too_many(WIRE_CALL_{self.call.name}, {count})"
        )
        t(f"    if ({count} > {limit})", f"        return {answer};")

    def _check_handle(self, t: Text, p: Param) -> None:
        name, kind = p.name, kind_of(p.type)
        test = f"!stub_gen_handle({kind}, {self.id_of(p)})"
        if p.type.word == "stream" and p.life != "del":
            twin = "per_thread" if self.call.twin else "false"
            test = f"stub_gen_stream({name}, {twin}, &{name}_id)"
        elif p.type.word == "stream":
            t(f"    {name}_id = {self.id_of(p)};")
        elif p.type.word == "ctx":
            # A context may be left out where the current one is meant.
            if self.call.reply != "none":
                test = f"{name} && {test}"
        elif p.optional:
            test = f"{name} && {test}"
        t(f"    if ({test})", f"        return wire_handle_error({kind});")

    @staticmethod
    def id_of(p: Param) -> str:
        """A handle parameter as the number that goes on the wire."""
        if p.type.word in INTEGER_HANDLES:
            return f"(uint64_t){p.name}"
        return f"(uintptr_t){p.name}"

    # ---- into the frame ---------------------------------------------------------

    def store(self, t: Text, p: Param) -> None:
        """Fill the fixed fields of p."""
        q, name, word = f"req->{p.name}", p.name, p.type.word
        if p.dir == "out":
            if p.life == "new":
                t(f"    {q} = {name}_id;")
        elif is_scalar(p.type):
            t(f"    {q} = {self._scalar(p)};")
        elif word == "sized":
            t(f"    {q} = stub_gen_load({name}, {name}_size);")
        elif word == "string":
            t(f"    req->{name}_len = (uint32_t){name}_len;")
        elif word == "struct":
            self._store_struct(t, p)
        elif p.type.count.isdigit():
            size = f"{p.type.count} * {element_size(p)}"
            t(f"    memcpy({q}, {name}, {size});")
        elif self.req.has(f"{name}_len"):
            t(f"    req->{name}_len = (uint32_t){self.count(p)};")

    def _scalar(self, p: Param) -> str:
        name, word = p.name, p.type.word
        if p.dir == "inout":
            value = f"*{name}"
            if self._most(p):
                value = f"stub_gen_at_most({value}, {self._most(p)})"
            return f"{name} ? {value} : 0" if p.optional else value
        if word == "stream":
            return f"{name}_id"
        if word == "device":
            return f"stub_device_wire({name})"
        if word == "address" or is_handle(p.type):
            return self.id_of(p)
        if word in ("enum", "flags"):
            return f"({wire_type(p.type)}){name}"
        return name

    def _store_struct(self, t: Text, p: Param) -> None:
        q = f"req->{p.name}"
        source = f"&{p.name}" if p.by_value else p.name
        lines = [f"memcpy({q}, {source}, sizeof({p.type.name}));"]
        for r in struct_rules(self.api, self.abi, p.type.name):
            image = f"(({p.type.name} *){q})->{r.field}"
            if r.kind == "handle" and r.handle == STREAM_FIELD:
                lines.append(f"{image} = (CUstream)(uintptr_t){p.name}_{r.field}_id;")
            elif r.kind == "zero":
                lines.append(f"memset(&{image}, 0, sizeof({image}));")
        if has_devices(self.api, self.abi, p.type.name):
            lines.append(
                f"stub_wire_{self.abi.base(p.type.name)}(({p.type.name} *){q});"
            )
        if p.optional:
            t(f"    memset({q}, 0, sizeof({q}));", f"    if ({p.name}) {{")
            t(*(f"        {line}" for line in lines), "    }")
        else:
            t(*(f"    {line}" for line in lines))

    def parts(self, t: Text, p: Param) -> None:
        """Fill the variable parts of p."""
        name, word = p.name, p.type.word
        if not p.goes or p.dir == "send":
            return
        if word == "string":
            t(f"    if ({name})", f"        memcpy(room.{name}, {name}, {name}_len);")
        elif word in ("array", "bytes") and not p.type.count.isdigit():
            t(
                f"    if (room.{name})",
                f"        memcpy(room.{name}, {name}, {self.count(p)} * {element_size(p)});",
            )
            elem = p.type.elem
            if (
                elem
                and elem.word == "struct"
                and has_devices(self.api, self.abi, elem.name)
            ):
                t(
                    f"    for (uint64_t i = 0; room.{name} && i < {self.count(p)}; i++)",
                    f"        stub_wire_{self.abi.base(elem.name)}(&room.{name}[i]);",
                )
        elif word == "struct":
            for r in struct_rules(self.api, self.abi, p.type.name):
                if r.kind == "array":
                    assert r.elem
                    part = f"{name}_{r.field}"
                    t(
                        f"    if (room.{part})",
                        f"        memcpy(room.{part}, {name}->{r.field},",
                        f"               (uint64_t){name}->{r.elem.count} * sizeof({r.elem.name}));",
                    )
                    if has_devices(self.api, self.abi, r.elem.name):
                        count = f"(uint64_t){name}->{r.elem.count}"
                        t(
                            f"    for (uint64_t i = 0; room.{part} && i < {count}; i++)",
                            f"        stub_wire_{self.abi.base(r.elem.name)}(&room.{part}[i]);",
                        )

    def part_sizes(self, p: Param) -> list[str]:
        """Expressions that add up to the bytes of the variable parts of p."""
        name, word = p.name, p.type.word
        if not p.goes:
            return []
        if word == "string":
            return [f"wire_align64({name}_len)"]
        if word in ("array", "bytes") and not p.type.count.isdigit():
            count = self.count(p)
            if p.optional:
                count = f"({name} ? {count} : 0)"
            return [f"wire_align64({count} * {element_size(p)})"]
        sizes = []
        if word == "struct":
            for r in struct_rules(self.api, self.abi, p.type.name):
                if r.kind == "array":
                    assert r.elem
                    count = f"(uint64_t){name}->{r.elem.count}"
                    if p.optional:
                        count = f"({name} ? {count} : 0)"
                    sizes.append(f"wire_align64({count} * sizeof({r.elem.name}))")
        return sizes

    def struct_checks(self, t: Text, p: Param) -> None:
        """Counts of arrays inside a structure, and the streams it names."""
        if p.type.word != "struct" or not p.goes:
            return
        guard = f"{p.name} && " if p.optional else ""
        dot = "." if p.by_value else "->"
        for r in struct_rules(self.api, self.abi, p.type.name):
            if r.kind == "array":
                assert r.elem
                count = f"(uint64_t){p.name}{dot}{r.elem.count}"
                answer = (
                    "CUDA_ERROR_INVALID_VALUE"
                    if r.most
                    else f"stub_unsupported(WIRE_CALL_{self.call.name})"
                )
                t(
                    f"    if ({guard}{count} && !{p.name}{dot}{r.field})",
                    "        return CUDA_ERROR_INVALID_VALUE;",
                    f"    if ({guard}{count} > {r.max})",
                    f"        return {answer};",
                )
            elif r.kind == "handle" and r.handle == STREAM_FIELD:
                twin = "per_thread" if self.call.twin else "false"
                t(
                    f"    if (stub_gen_stream({p.name}{dot}{r.field}, {twin},",
                    f"                        &{p.name}_{r.field}_id))",
                    "        return CUDA_ERROR_INVALID_HANDLE;",
                )

    # ---- out of the answer ------------------------------------------------------

    def check_all(self, t: Text, p: Param) -> None:
        """Refuse an answer that is not all of what the caller has room for."""
        if p.type.word != "array" or not self.has_room(p):
            return
        t(
            f"        if ({p.name} && *{p.type.count} > {p.max} &&",
            f"            view.f->{p.type.count} >= {p.max}) {{",
            "            ret = stub_unsupported(WIRE_CALL_" + self.call.name + ");",
            "            stub_call_end(&call);",
            "            return ret;",
            "        }",
        )

    def load(self, t: Text, p: Param) -> None:
        """Hand one output to the caller."""
        if not p.comes or p.wire_only or p.life == "new":
            return
        v, name, word = f"view.f->{p.name}", p.name, p.type.word
        guard = f"if ({name}) " if p.optional else ""
        if is_scalar(p.type):
            value = f"({value_type(p.type)}){v}"
            if word == "device":
                value = f"stub_device_from_wire({v})"
            elif is_handle(p.type) and word not in INTEGER_HANDLES:
                value = f"({value_type(p.type)})(uintptr_t){v}"
            t(f"        {guard}*{name} = {value};")
            if word == "devptr":
                t(f"        {guard}stub_memory_reserve(*{name}, 1);")
        elif word == "sized":
            t(f"        stub_gen_store({name}, {name}_size, {v});")
        elif word == "struct":
            self._load_struct(t, p, guard)
        elif word == "name":
            t(f"        *{name} = stub_gen_name(view.{name});")
        elif p.type.count.isdigit():
            t(f"        memcpy({name}, {v}, {p.type.count} * {element_size(p)});")
        elif word == "text":
            t(
                f"        stub_gen_text({name}, {self.requested(p)}, view.{name}, {v}_n);"
            )
        else:
            t(
                f"        stub_gen_copy({name}, {self.requested(p)}, view.{name}, {v}_n,",
                f"                      {element_size(p)});",
            )

    def requested(self, p: Param) -> str:
        """How many elements the caller has room for; read before the answer was."""
        return f"{p.name}_room"

    def _load_struct(self, t: Text, p: Param, guard: str) -> None:
        kept = [
            r
            for r in struct_rules(self.api, self.abi, p.type.name)
            if r.kind in ("array", "manual", "zero")
            and p.dir == "inout"
            and r.field != "*"
        ]
        back = (
            f"        {guard}stub_unwire_{self.abi.base(p.type.name)}({p.name});"
            if has_devices(self.api, self.abi, p.type.name)
            else ""
        )
        if not kept:
            t(f"        {guard}memcpy({p.name}, view.f->{p.name}, sizeof(*{p.name}));")
            t(*([back] if back else []))
            return
        t("        {", f"            {p.type.name} kept = *{p.name};", "")
        t(f"            memcpy({p.name}, view.f->{p.name}, sizeof(*{p.name}));")
        t(
            *(f"            {p.name}->{r.field} = kept.{r.field};" for r in kept),
            "        }",
        )
        t(*([back] if back else []))
