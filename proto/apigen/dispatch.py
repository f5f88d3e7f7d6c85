# SPDX-License-Identifier: Apache-2.0
"""The worker: one function per call that decodes, runs and answers a frame."""

from __future__ import annotations

from .abi import Abi, Field, Struct
from .codec import Codecs, struct_rules
from .ctypes_ import HANDLES, is_handle, is_scalar, kind_of, value_type
from .emit import Output, Text
from .model import Api, ApiError, Call, Param, Rule
from .server_arg import ServerArg, has_fix

INCLUDES = ("drv.h", "gp_base.h", "wire_api.h", "wrk_args.h", "wrk_call.h", "wrk_gen.h")


def enter_flags(call: Call) -> str:
    """Flags of wrk_call_enter()."""
    flags = ["WRK_CALL_ALWAYS"] if call.always else []
    flags += ["WRK_CALL_NO_CTX"] if call.no_context else []
    return " | ".join(flags) or "0"


def gives_function(call: Call) -> bool:
    """Does it give a function of the program to a stream?  The client keeps that, and
    must hear of it even if the call fails before the driver has seen it."""
    return call.name in ("cuLaunchHostFunc", "cuStreamAddCallback")


class Dispatch:
    """wrk_recv_<call>()."""

    def __init__(self, codecs: Codecs, call: Call) -> None:
        self.call = call
        self.req, self.rep = codecs.req[call.name], codecs.rep[call.name]
        self.arg = ServerArg(codecs.api, codecs.abi, call, self.req, self.rep)
        self.answers = bool(self.rep.fixed or self.rep.parts)

    def _scratches(self) -> bool:
        text = Text()
        for p in self.call.params:
            if self._wants_local(p):
                self.arg.prepare(text, p)
        return "wrk_gen_scratch" in text.text()

    def emit(self, t: Text) -> None:
        """The function, opening first so that locals can use the view."""
        c = self.call
        t(f"/* {c.name}: {c.where} */", "GP_HOT static bool" if c.hot else "static bool")
        t(f"wrk_run_{c.name}(struct wrk *w, const struct wire_req *req,")
        t(f"    const struct {self.req.name}_view *v)", "{")
        t(f"    const struct {self.req.name}_view view = *v;")
        for p in c.params:
            if self._wants_local(p):
                self.arg.local(t, p)
        if self._scratches():
            t("    uint32_t used = 0;")
        if c.server == "manual":
            self._manual_locals(t)
        elif self.answers:
            t(f"    struct {self.rep.name} fixed;")
            if self.rep.parts:
                t(f"    struct {self.rep.name}_room room;")
            t("    uint32_t rep_size;", "    void *body;")
        t("    CUresult r;", "")
        if not self.req.fixed:
            t("    (void)view;")
        for p in c.params:
            if self._wants_local(p):
                self.arg.caps(t, p)
        t(f"    r = wrk_call_enter(w, req, {enter_flags(c)});")
        for p in c.params:
            if self._wants_local(p):
                self.arg.prepare(t, p)
        if c.server == "manual":
            self._manual(t)
        else:
            self._driver(t)
        t("    return true;", "}", "")
        self._entry(t)

    def _wants_local(self, p: Param) -> bool:
        """Outputs of hand-written calls are the hand's business."""
        if self.call.server == "manual":
            return p.goes
        return True

    def _entry(self, t: Text) -> None:
        c = self.call
        t(
            "GP_HOT bool" if c.hot else "bool",
            f"wrk_recv_{c.name}(struct wrk *w, const struct wire_req *req, size_t size)",
        )
        t("{", f"    struct {self.req.name}_view view;", "")
        t(
            f"    if (!{self.req.name}_open(&view, req + 1, size - sizeof(*req), req->flags))"
        )
        t(f'        return wrk_frame_bad(w, req, "{c.name}: malformed body");')
        t(f"    return wrk_run_{c.name}(w, req, &view);", "}", "")

    # ---- generated --------------------------------------------------------------

    def _driver(self, t: Text) -> None:
        c = self.call
        args = [self.arg.argument(p) for p in c.args]
        t("    if (r == CUDA_SUCCESS)")
        t(f"        r = WRK_CALL({', '.join(['w', c.name] + args)});")
        for p in c.args:
            if p.life == "new" and p.dir == "out":
                t("    if (r == CUDA_SUCCESS)")
                t(f"        wrk_handle_put(w, {kind_of(p.type)}, view.f->{p.name},")
                t(f"                       (void *)(uintptr_t){p.name});")
            elif p.life == "del" and is_handle(p.type):
                t("    if (r == CUDA_SUCCESS)")
                t(f"        wrk_handle_del(w, {kind_of(p.type)}, view.f->{p.name});")
        if not self.answers:
            t("    wrk_call_leave(w, req, r);")
        else:
            self._answer(t)

    def _answer(self, t: Text) -> None:
        c = self.call
        if not c.on_error:
            t("    if (r != CUDA_SUCCESS) {", "        wrk_call_leave(w, req, r);")
            t("        return true;", "    }")
        t("    memset(&fixed, 0, sizeof(fixed));")
        for p in c.args:
            if p.comes and p not in self.arg.reply_parts():
                self.arg.reply_fixed(t, p)
        for p in self.arg.reply_parts():
            self.arg.reply_counts(t, p)
        size = f"{self.rep.name}_size(&fixed)" if self.rep.parts else "sizeof(fixed)"
        t(f"    rep_size = {size};")
        if self.rep.parts:
            t("    if (!rep_size) {")
            t("        wrk_call_leave(w, req, CUDA_ERROR_OUT_OF_MEMORY);")
            t("        return true;", "    }")
        t("    body = wrk_reply_reserve(w, req, rep_size);")
        t("    if (!body)", "        return true;")
        t("    memcpy(body, &fixed, sizeof(fixed));")
        if self.rep.parts:
            t(f"    {self.rep.name}_place(&room, body);")
            for p in self.arg.reply_parts():
                self.arg.reply_part(t, p)
        t("    wrk_reply_send(w, req, r);")

    # ---- by hand ----------------------------------------------------------------

    def _manual_locals(self, t: Text) -> None:
        t(f"    struct wire_args_{self.call.name} args;")
        if self.answers:
            t(f"    struct {self.rep.name} body;")
        t("    struct wrk_reply rep = {.req = req};")

    def _manual(self, t: Text) -> None:
        c = self.call
        t("    memset(&args, 0, sizeof(args));")
        for p in c.params:
            self._fill(t, p)
        for f in self.req.fixed:
            if not c.param(f.name) and f.name not in ("given", "zero"):
                t(f"    args.{f.name} = view.f->{f.name};")
        if self.answers:
            t("    memset(&body, 0, sizeof(body));", "    rep.body = &body;")
            t("    rep.size = sizeof(body);")
        if self.req.bulk:
            t(
                f"    rep.bulk = req->flags & WIRE_F_BULK ? view.f->{self.req.bulk_len} : 0;"
            )
        t("    if (r == CUDA_SUCCESS)", f"        r = h_{c.name}(w, &args, &rep);")
        if gives_function(c):
            t("    else", f"        h_{c.name}_lost(w, &args, &rep, r);")
        t("    wrk_reply_finish(w, &rep, r);")

    def _fill(self, t: Text, p: Param) -> None:
        name, word = p.name, p.type.word
        if p.client or p.dir == "recv":
            return
        if p.dir == "out":
            if p.life == "new" and word != "array":
                t(f"    args.{name}_id = view.f->{name};")
            elif p.optional and word in ("array", "text", "bytes"):
                t(f"    args.{name}_wanted = {self.arg.given(p)} != 0;")
            return
        if is_handle(p.type):
            t(
                f"    args.{name} = {self.arg.cast(p)};",
                f"    args.{name}_id = view.f->{name};",
            )
        elif word == "struct":
            given = (
                f"{self.arg.given(p)} ? &{name} : NULL" if p.optional else f"&{name}"
            )
            t(f"    args.{name} = {given};")
        elif is_scalar(p.type) and word != "address":
            t(f"    args.{name} = ({value_type(p.type)})view.f->{name};")
        elif word == "sized":
            t(f"    args.{name} = view.f->{name};")
        elif word == "bytes":
            t(f"    args.{name} = view.{name};")
        else:
            t(f"    args.{name} = {self.arg.argument(p)};")


def args_struct(t: Text, codecs: Codecs, call: Call) -> None:
    """struct wire_args_<call> and the prototype of its handler."""
    arg = ServerArg(
        codecs.api, codecs.abi, call, codecs.req[call.name], codecs.rep[call.name]
    )
    req = codecs.req[call.name]
    t(
        f"/* {call.name}: {call.where}: {call.why_server} */",
        f"struct wire_args_{call.name} {{",
    )
    lines: list[str] = []
    for p in call.params:
        lines += _args_fields(arg, p)
    for f in req.fixed:
        if not call.param(f.name) and f.name not in ("given", "zero"):
            lines.append(f"{f.ctype} {f.name};")
    t(*(f"    {line}" for line in lines or ["char nothing;"]), "};")
    t(f"CUresult h_{call.name}(struct wrk *w, const struct wire_args_{call.name} *a,")
    t("    struct wrk_reply *rep);", "")
    if gives_function(call):
        t("/* The call has failed before its body, with @r. */")
        t(f"void h_{call.name}_lost(struct wrk *w, const struct wire_args_{call.name} *a,")
        t("    struct wrk_reply *rep, CUresult r);", "")


def _args_fields(arg: ServerArg, p: Param) -> list[str]:
    name, word = p.name, p.type.word
    if p.client or p.dir == "recv":
        return []
    if p.dir == "out":
        if p.life == "new" and word != "array":
            return [f"uint64_t {name}_id; /* made by the client */"]
        if p.optional and word in ("array", "text", "bytes"):
            return [f"bool {name}_wanted;"]
        return []
    if is_handle(p.type):
        return [f"{value_type(p.type)} {name};", f"uint64_t {name}_id;"]
    if word == "struct":
        return [f"{'' if p.dir == 'inout' else 'const '}{p.type.name} *{name};"]
    if word == "array":
        return [f"const {arg.element(p)} *{name};"]
    if word == "bytes":
        null = " /* NULL: arrives as bulk */" if p.bulk else ""
        return [f"const uint8_t *{name};{null}"]
    if word == "string":
        return [f"const char *{name};"]
    if word == "sized":
        return [f"uint64_t {name};"]
    return [f"{value_type(p.type)} {name};"]


# ---- structures ----------------------------------------------------------------


def _fix_field(t: Text, rule_field: str, handle: str, when: str, into: bool) -> None:
    ctype, kind, _ = HANDLES[handle]
    s = f"s->{rule_field}"
    t(f"    if (r == CUDA_SUCCESS && {when}) {{" if into else f"    if ({when})")
    if into:
        if handle == "func":
            t(f"        r = wrk_func_get(w, (uint64_t){s}, &obj);")
        else:
            t(f"        r = wrk_handle_get(w, WIRE_KIND_{kind}, (uint64_t){s}, &obj);")
        t(f"        {s} = ({ctype})(uintptr_t)obj;", "    }")
    else:
        t(f"        {s} = ({ctype})wrk_handle_name(w, WIRE_KIND_{kind}, (void *){s});")


def emit_fixes(out: Output, codecs: Codecs) -> None:
    """wrk_struct.[ch]: ids to handles and back inside structures."""
    h, t = Text(), Text()
    h('#include "wrk_call.h"', "")
    t('#include "wrk_struct.h"', "")
    for known, rules in codecs.api.rules.items():
        if not has_fix(codecs.api, codecs.abi, known):
            continue
        name = codecs.abi.base(known)
        h(f"CUresult wrk_fix_in_{name}(struct wrk *w, {name} *s);")
        h(f"void wrk_fix_out_{name}(struct wrk *w, {name} *s);")
        for into in (True, False):
            result = "CUresult" if into else "void"
            t(
                result,
                f"wrk_fix_{'in' if into else 'out'}_{name}(struct wrk *w, {name} *s)",
                "{",
            )
            handles = [r for r in rules if r.kind == "handle"]
            if into:
                t("    CUresult r = CUDA_SUCCESS;")
                t(*(["    void *obj = NULL;"] if handles else []), "")
            for r in handles:
                when = (
                    f"s->{r.when_field} == {r.when_value}" if r.when_field else "true"
                )
                _fix_field(t, r.field, r.handle, when, into)
            for r in rules:
                if r.kind == "zero" and into:
                    when = f"if (s->{r.when_field} == {r.when_value})\n        "
                    t(f"    {when if r.when_field else ''}s->{r.field} = 0;")
                elif r.kind == "known" and into:
                    t(f"    if ((unsigned)s->{r.field} > (unsigned){r.when_value})")
                    t("        r = CUDA_ERROR_INVALID_VALUE;")
            t("    return r;" if into else "    (void)w;", "}", "")
    out.c_file("wrk_struct.h", "Handles inside structures.", h)
    out.c_file("wrk_struct.c", "Handles inside structures.", t)


def _pointers(abi: Abi, s: Struct, prefix: str) -> list[str]:
    found: list[str] = []
    for f in s.fields:
        found += _field_pointers(abi, f, prefix)
    return found


def _field_pointers(abi: Abi, f: Field, prefix: str) -> list[str]:
    path = f"{prefix}{f.name}"
    if f.pointer:
        return [path]
    if isinstance(f.type, Struct):
        return _pointers(abi, f.type, f"{path}." if f.name else prefix)
    base = abi.base(f.type)
    if base in abi.pointers:
        return [path]
    if f.type.startswith("CUmemGenericAllocationHandle"):
        return [path]
    if base in abi.structs:
        return _pointers(abi, abi.structs[base], f"{path}.")
    return []


def _rules_inside(codecs: Codecs, name: str) -> list[Rule]:
    """The rules of a structure and of the arrays that it points to."""
    found: list[Rule] = []
    for r in struct_rules(codecs.api, codecs.abi, name):
        found.append(r)
        if r.kind == "array" and r.elem and r.elem.word == "struct":
            found += _rules_inside(codecs, r.elem.name)
    return found


def _check_hand(codecs: Codecs, c: Call, p: Param, name: str) -> None:
    """A field of hand-written meaning needs that hand: a generated dispatch would give
    the driver the client's number as a pointer, a generated stub would put an address
    of its process on the wire.  (Messages between stub and worker have no stub.)"""
    for r in _rules_inside(codecs, name):
        if r.kind not in ("manual", "union"):
            continue
        sides = ["server"] if c.server == "generated" else []
        if r.kind == "manual" and p.goes and c.client == "generated" and not c.internal:
            sides.append("client")
        if sides:
            raise ApiError(
                f"{c.where}: {c.name}: {p.name}: {name}.{r.field} needs a hand-written"
                f" {sides[0]}, and that side is generated"
            )


def check(codecs: Codecs) -> None:
    """Every pointer and handle in a structure that crosses the wire has a rule, and one
    that only a hand can give a meaning has a hand."""
    api, abi = codecs.api, codecs.abi
    for c in api.calls:
        if not c.on_wire:
            continue
        for p in c.params:
            t = p.type.elem or p.type
            if p.client or t.word != "struct":
                continue
            _check_hand(codecs, c, p, t.name)
            covered = {r.field for r in struct_rules(api, abi, t.name)}
            for path in _pointers(abi, abi.struct(t.name), ""):
                if path not in covered and "*" not in covered:
                    raise ApiError(f"{c.where}: {c.name}: no rule for {t.name}.{path}")


# ---- files ---------------------------------------------------------------------

GEN_HEADER = r"""
#include "wire_format.h"
#include "wrk_call.h"
#include "wrk_struct.h"

#include <string.h>

/* Copies of a frame's arrays with handles in place of ids, and outputs before they
 * are sent: bounded by the caps of one call.  Reader thread only. */
#define WRK_SCRATCH_SIZE (4 * WIRE_FRAME_MAX)
extern uint64_t wrk_gen_arena[WRK_SCRATCH_SIZE / sizeof(uint64_t)];

static inline CUresult
wrk_gen_scratch(uint32_t *used, uint64_t size, void **ret)
{
    if (size > WRK_SCRATCH_SIZE - *used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (char *)wrk_gen_arena + *used;
    *used += (uint32_t)((size + 7) & ~(uint64_t)7);
    memset(*ret, 0, size);
    return CUDA_SUCCESS;
}
"""


INTERNAL_FIRST = 0xE000  # messages that are no function of the driver

DISPATCH = r"""
/* Pointers and no switch: one look, and nothing of it is code. */
GP_HOT bool
wrk_dispatch(struct wrk *w, const struct wire_req *req, size_t size)
{
    unsigned call = req->call;
    dispatch run = NULL;

    if (likely(call < ARRAY_SIZE(of_driver)))
        run = of_driver[call];
    else if (call >= INTERNAL_FIRST && call - INTERNAL_FIRST < ARRAY_SIZE(of_pool))
        run = of_pool[call - INTERNAL_FIRST];
    if (unlikely(!run))
        return wrk_frame_bad(w, req, "unknown call");
    return run(w, req, size);
}
"""


def _emit_family(out: Output, codecs: Codecs, family: str) -> None:
    t = Text()
    t(*(f'#include "{i}"' for i in INCLUDES), "", "#include <string.h>", "")
    for c in codecs.api.calls:
        if c.family != family or not c.on_wire:
            continue
        if c.server == "manual":
            t("/* Nobody has written it: the driver's own word for that. */")
            t("__attribute__((weak)) CUresult")
            t(f"h_{c.name}(struct wrk *w, const struct wire_args_{c.name} *a,")
            t(
                "    struct wrk_reply *rep)",
                "{",
                "    return CUDA_ERROR_NOT_SUPPORTED;",
                "}",
                "",
            )
        if gives_function(c):
            t("__attribute__((weak)) void")
            t(f"h_{c.name}_lost(struct wrk *w, const struct wire_args_{c.name} *a,")
            t("    struct wrk_reply *rep, CUresult r)", "{", "}", "")
        Dispatch(codecs, c).emit(t)
    out.c_file(f"wrk_{family}.c", f"Frames of the family {family}, decoded and run.", t)


def emit(out: Output, codecs: Codecs) -> None:
    """Everything the worker compiles."""
    api: Api = codecs.api
    gen, args, table = Text(), Text(), Text()
    gen(GEN_HEADER.strip("\n"), "")
    args('#include "wrk_call.h"', "")
    table('#include "gp_base.h"', '#include "wire_api.h"', '#include "wrk_call.h"')
    table('#include "wrk_gen.h"', "")
    table("uint64_t wrk_gen_arena[WRK_SCRATCH_SIZE / sizeof(uint64_t)];", "")
    for c in api.calls:
        if not c.on_wire:
            continue
        gen(
            f"bool wrk_recv_{c.name}(struct wrk *w, const struct wire_req *req, size_t size);"
        )
        if c.server == "manual":
            args_struct(args, codecs, c)
    table("typedef bool (*dispatch)(struct wrk *w, const struct wire_req *req, size_t size);")
    table("#define INTERNAL_FIRST 0x%x" % INTERNAL_FIRST, "")
    for name, base, internal in (("of_driver", "", False),
                                 ("of_pool", " - INTERNAL_FIRST", True)):
        table(f"static const dispatch {name}[] = {{")
        table(*(f"    [WIRE_CALL_{c.name}{base}] = wrk_recv_{c.name}," for c in api.calls
                if c.on_wire and (c.number >= INTERNAL_FIRST) == internal))
        table("};", "")
    table(DISPATCH.strip("\n"))
    emit_fixes(out, codecs)
    out.c_file("wrk_gen.h", "What the generated dispatch shares.", gen)
    out.c_file("wrk_args.h", "Arguments of calls that the worker has by hand.", args)
    out.c_file("wrk_dispatch.c", "From a frame's number to its function.", table)
    for family in api.families:
        _emit_family(out, codecs, family)
