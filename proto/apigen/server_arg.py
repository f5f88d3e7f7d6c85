# SPDX-License-Identifier: Apache-2.0
"""The worker's side of a parameter: from the frame to the driver to the answer."""

from __future__ import annotations

from .codec import Body, count_of, struct_rules
from .ctypes_ import INTEGER_HANDLES, is_handle, is_scalar, kind_of, value_type
from .ctypes_ import wire_type
from .emit import Text
from .model import Api, Call, Param, Rule
from .abi import Abi


def has_fix(api: Api, abi: Abi, name: str) -> bool:
    """Do fields of this structure have to be translated?"""
    return any(r.kind in ("handle", "zero", "known") for r in struct_rules(api, abi, name))


def takes_kernels(call: str) -> bool:
    """Does a driver take a CUkernel for the CUfunction of this call?"""
    return call.startswith(("cuLaunch", "cuOccupancy"))


class ServerArg:
    """Emits what one parameter needs in the dispatch of a call."""

    def __init__(self, api: Api, abi: Abi, call: Call, req: Body, rep: Body) -> None:
        self.api, self.abi, self.call, self.req, self.rep = api, abi, call, req, rep

    def rules(self, p: Param) -> list[Rule]:
        return struct_rules(self.api, self.abi, p.type.name)

    def base(self, name: str) -> str:
        return self.abi.base(name)

    def part_count(self, p: Param) -> str:
        """Elements of a part of the request."""
        part = next(x for x in self.req.parts if x.name == p.name)
        return count_of(part).replace("f->", "view.f->")

    def room(self, p: Param) -> str:
        """Elements that an output array has room for, as the client asked."""
        name, _, minus = p.type.count.partition("-")
        if name.isdigit():
            return name
        count = f"(uint64_t)view.f->{name}"
        if minus:
            count = (
                f"(uint64_t)(view.f->{name} > {minus} ? view.f->{name} - {minus} : 0)"
            )
        if p.optional:
            count = f"(view.f->given & {self.req.bit(p.name)} ? {count} : 0)"
        return count

    def given(self, p: Param) -> str:
        return f"(view.f->given & {self.req.bit(p.name)})"

    # ---- declarations -----------------------------------------------------------

    def local(self, t: Text, p: Param) -> None:
        """The local variable that holds p, if it needs one."""
        if p.client:
            return
        name, word = p.name, p.type.word
        if p.dir in ("in", "send"):
            if is_handle(p.type):
                t(f"    void *{name} = NULL;")
            elif word == "struct":
                t(f"    {p.type.name} {name};")
            elif word == "array" and self._needs_copy(p):
                t(f"    {self.element(p)} *{name} = NULL;")
            elif word == "sized" and self.call.server != "manual":
                t(f"    uint64_t {name} = view.f->{name};")
        elif p.wire_only:
            return
        elif word == "struct":
            t(f"    {p.type.name} {name};")
        elif word == "name":
            t(f"    const char *{name} = NULL;")
        elif word == "sized":
            t(f"    uint64_t {name} = 0;")
        elif p.type.count.isdigit():
            t(f"    {self.element(p)} {name}[{p.type.count}] = {{0}};")
        elif word in ("array", "bytes", "text"):
            t(
                f"    {self.element(p)} *{name} = NULL;",
                f"    uint64_t {name}_n = {self.room(p)};",
            )
        elif is_scalar(p.type):
            start = f"({value_type(p.type)})view.f->{name}" if p.dir == "inout" else "0"
            t(f"    {value_type(p.type)} {name} = {start};")

    def element(self, p: Param) -> str:
        """The C type of an array's element as the driver sees it."""
        if p.type.elem:
            return value_type(p.type.elem)
        return "char" if p.type.word == "text" else "uint8_t"

    def _needs_copy(self, p: Param) -> bool:
        elem = p.type.elem
        assert elem
        return is_handle(elem) or (
            elem.word == "struct" and has_fix(self.api, self.abi, elem.name)
        )

    # ---- before the driver ------------------------------------------------------

    def caps(self, t: Text, p: Param) -> None:
        """Refuse a frame that asks for more output than the description allows."""
        word = p.type.word
        if p.client or p.wire_only or p.dir not in ("out", "inout"):
            return
        if word in ("array", "bytes", "text") and not p.type.count.isdigit():
            t(
                f"    if ({p.name}_n > {p.max})",
                f'        return wrk_frame_bad(w, req, "{self.call.name}: {p.name} past its cap");',
            )

    def prepare(self, t: Text, p: Param) -> None:
        """Make the local variable ready for the driver."""
        name, word = p.name, p.type.word
        if p.client:
            return
        if p.dir in ("in", "send") and is_handle(p.type):
            if word == "func" and not takes_kernels(self.call.name):
                get = f"wrk_func_get(w, view.f->{name}, &{name});"
            else:
                get = f"wrk_handle_get(w, {kind_of(p.type)}, view.f->{name}, &{name});"
            t("    if (r == CUDA_SUCCESS)", f"        r = {get}")
        elif word == "struct" and p.dir != "out" and p.dir != "recv":
            self._prepare_struct(t, p)
        elif word == "struct" and p.dir == "out":
            t(f"    memset(&{name}, 0, sizeof({name}));")
        elif word == "array" and p.dir in ("in", "send") and self._needs_copy(p):
            self._prepare_array(t, p)
        elif p.dir in ("out", "inout") and word in ("array", "bytes", "text"):
            if not p.type.count.isdigit():
                size = f"{name}_n * sizeof(*{name})"
                # Room for nothing is not the same to a driver as no array.
                asked = self.given(p) if p.optional else f"{name}_n"
                t(f"    if (r == CUDA_SUCCESS && {asked})")
                t(f"        r = wrk_gen_scratch(&used, {size}, (void **)&{name});")

    def _prepare_struct(self, t: Text, p: Param) -> None:
        name = p.name
        t(f"    memcpy(&{name}, view.f->{name}, sizeof({name}));")
        if has_fix(self.api, self.abi, p.type.name):
            test = f" && {self.given(p)}" if p.optional else ""
            t(f"    if (r == CUDA_SUCCESS{test})")
            t(f"        r = wrk_fix_in_{self.base(p.type.name)}(w, &{name});")
        for r in self.rules(p):
            if r.kind != "array":
                continue
            assert r.elem
            part = f"view.{name}_{r.field}"
            if has_fix(self.api, self.abi, r.elem.name):
                count = f"(uint64_t){name}.{r.elem.count}"
                fix = self.base(r.elem.name)
                t(
                    f"    {name}.{r.field} = NULL;",
                    f"    if (r == CUDA_SUCCESS && {part})",
                    f"        r = wrk_gen_scratch(&used, {count} * sizeof({r.elem.name}),",
                    f"                            (void **)&{name}.{r.field});",
                    f"    for (uint64_t i = 0; r == CUDA_SUCCESS && {part} && i < {count}; i++) {{",
                    f"        {name}.{r.field}[i] = {part}[i];",
                    f"        r = wrk_fix_in_{fix}(w, &{name}.{r.field}[i]);",
                    "    }",
                )
            else:
                t(f"    {name}.{r.field} = ({r.elem.name} *)(uintptr_t){part};")

    def _prepare_array(self, t: Text, p: Param) -> None:
        name, elem = p.name, p.type.elem
        assert elem
        count = self.part_count(p)
        t(
            f"    if (r == CUDA_SUCCESS && view.{name})",
            f"        r = wrk_gen_scratch(&used, {count} * sizeof(*{name}), (void **)&{name});",
            f"    for (uint64_t i = 0; r == CUDA_SUCCESS && {name} && i < {count}; i++) {{",
        )
        if elem.word == "struct":
            t(
                f"        {name}[i] = view.{name}[i];",
                f"        r = wrk_fix_in_{self.base(elem.name)}(w, &{name}[i]);",
            )
        else:
            t(
                f"        r = wrk_handle_get(w, {kind_of(elem)}, view.{name}[i],",
                f"                           (void **)&{name}[i]);",
            )
        t("    }")

    # ---- the driver's argument --------------------------------------------------

    def argument(self, p: Param) -> str:
        """What is passed to the driver for p."""
        name, word = p.name, p.type.word
        out = p.dir in ("out", "inout")
        if out:
            if word in ("array", "bytes", "text") or p.type.count.isdigit():
                return name
            if p.optional and p.dir == "inout":
                return f"{self.given(p)} ? &{name} : NULL"
            return f"&{name}"
        if is_handle(p.type):
            return self.cast(p)
        if word == "struct":
            if p.by_value:
                return name
            return f"{self.given(p)} ? &{name} : NULL" if p.optional else f"&{name}"
        if word == "sized":
            return f"&{name}"
        if word == "address":
            return f"(void *)(uintptr_t)view.f->{name}"
        if word == "array":
            if self._needs_copy(p):
                return name
            source = f"view.f->{name}" if p.type.count.isdigit() else f"view.{name}"
            return f"({self.element(p)} *)(uintptr_t){source}"
        if word == "bytes":
            return f"(void *)(uintptr_t)view.{name}"
        if word == "string":
            return f"view.{name}"
        return f"({value_type(p.type)})view.f->{name}"

    @staticmethod
    def cast(p: Param) -> str:
        """A looked-up handle in the driver's type."""
        middle = "(uintptr_t)" if p.type.word in INTEGER_HANDLES else ""
        return f"({value_type(p.type)}){middle}{p.name}"

    # ---- after the driver -------------------------------------------------------

    def reply_parts(self) -> list[Param]:
        """Outputs whose length is not fixed, in the order of the parts."""
        names = {x.name for x in self.rep.parts}
        return [p for p in self.call.params if p.name in names]

    def reply_counts(self, t: Text, p: Param) -> None:
        """The field that says how long a part of the answer is."""
        if p.type.word == "name":
            t(
                f"    fixed.{p.name}_len = {p.name} ? (uint32_t)strlen({p.name}) + 1 : 0;"
            )
        else:
            t(f"    fixed.{p.name}_n = (uint32_t){p.name}_n;")

    def reply_fixed(self, t: Text, p: Param) -> None:
        """Outputs of fixed size."""
        if not p.comes or p.life == "new" or p.wire_only:
            return
        name, word = p.name, p.type.word
        q = f"fixed.{name}"
        if is_scalar(p.type):
            if is_handle(p.type):
                t(
                    f"    {q} = wrk_handle_name(w, {kind_of(p.type)}, (void *)(uintptr_t){name});"
                )
            else:
                t(f"    {q} = ({wire_type(p.type)}){name};")
        elif word == "sized":
            t(f"    {q} = {name};")
        elif word == "struct":
            if has_fix(self.api, self.abi, p.type.name):
                t(f"    wrk_fix_out_{self.base(p.type.name)}(w, &{name});")
            t(f"    memcpy({q}, &{name}, sizeof({name}));")
        elif p.type.count.isdigit():
            t(f"    memcpy({q}, {name}, sizeof({name}));")

    def _owner(self) -> str:
        """The module or library whose functions this call tells."""
        return next(
            x.name for x in self.call.params if x.type.word in ("module", "library")
        )

    def reply_part(self, t: Text, p: Param) -> None:
        """Copy one variable output behind the fixed ones."""
        name = p.name
        if p.type.word == "name":
            t(
                f"    if (room.{name})",
                f"        memcpy(room.{name}, {name}, fixed.{name}_len);",
            )
        elif p.type.elem and is_handle(p.type.elem):
            owner = self._owner() if p.type.elem.word in ("func", "kernel") else ""
            t(
                f"    for (uint64_t i = 0; room.{name} && i < {name}_n; i++){' {' if owner else ''}",
                f"        room.{name}[i] = wrk_handle_name(w, {kind_of(p.type.elem)},",
                f"                                       (void *)(uintptr_t){name}[i]);",
            )
            if owner:
                t(f"        wrk_handle_of(w, room.{name}[i], view.f->{owner});", "    }")
        else:
            t(
                f"    if (room.{name} && {name})",
                f"        memcpy(room.{name}, {name}, {name}_n * sizeof(*{name}));",
            )
