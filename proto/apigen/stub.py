# SPDX-License-Identifier: Apache-2.0
"""The client: exported functions, and the seam to the bodies written by hand."""

from __future__ import annotations

from . import alias, route, trace
from .codec import Codecs
from .ctypes_ import declare, is_handle, kind_of, prototype
from .emit import Output, Text
from .model import Call, Param, Rule
from .stub_arg import StubArg

INCLUDES = (
    "cuda_api.h",
    "gp_base.h",
    "stub_call.h",
    "stub_capture.h",
    "stub_ctx.h",
    "stub_link_switch.h",
    "stub_device.h",
    "stub_event.h",
    "stub_gen.h",
    "stub_graph_nodes.h",
    "stub_manual.h",
    "stub_memory.h",
    "stub_report.h",
    "stub_relay.h",
    "stub_replica.h",
    "stub_trace.h",
    "wire_api.h",
    "wire_tables.h",
)


# Objects of other interfaces: the calls that make them are refused.
UNSUPPORTED_KINDS = ("gfxres", "extmem", "extsem")


def names(args: list[Param]) -> list[str]:
    """What a caller passes on."""
    return [p.name for p in args]


def by_hand(call: Call) -> bool:
    """Is the body looked for in client-stub/?"""
    return call.client in ("manual", "local") and not call.internal


def twin_extra(call: Call) -> str:
    """The last parameter of bodies that serve two exported names."""
    return "bool per_thread" if call.twin and not call.twin_as else ""


class StubBody:
    """One generated body: stub_gen_<call>()."""

    def __init__(self, codecs: Codecs, call: Call) -> None:
        self.call = call
        self.req, self.rep = codecs.req[call.name], codecs.rep[call.name]
        self.arg = StubArg(codecs.api, codecs.abi, call, self.req, self.rep)
        self.new = [p for p in call.args if p.life == "new" and p.dir == "out"]
        self.waits = call.reply != "none"

    def emit(self, t: Text) -> None:
        c = self.call
        hand = by_hand(c)
        heat = "GP_HOT " if c.hot else ""
        t(f"/* {c.name}: {c.where} */", f"{heat}{'' if hand else 'static '}CUresult")
        t(prototype(c, f"{'stub_gen_'}{c.name}", twin_extra(c)), "{")
        self._locals(t)
        for p in c.args:
            if not p.client:
                self.arg.check_handle(t, p)
        for p in c.args:
            if not p.client:
                self.arg.check_device(t, p)
        for p in c.args:
            if not p.client:
                self.arg.check(t, p)
        for p in c.args:
            if not p.client:
                self.arg.check_count(t, p)
                self.arg.struct_checks(t, p)
        self._lengths(t)
        self._make_handle(t)
        self._weigh(t)
        self._begin(t)
        self._store(t)
        if self.waits:
            self._wait(t)
        else:
            self._post(t)
        t("}", "")

    def _locals(self, t: Text) -> None:
        c = self.call
        if self.req.fixed:
            t(f"    struct {self.req.name} *req;")
        if self.req.parts:
            t(f"    struct {self.req.name}_room room;", "    uint64_t body_size;")
        if self.waits and (self.rep.fixed or self.rep.parts):
            t(f"    struct {self.rep.name}_view view;")
        for p in c.args:
            if p.client:
                continue
            if p.life == "new" or (p.dir == "in" and p.type.word == "stream"):
                t(f"    uint64_t {p.name}_id;")
            elif p.type.word == "string":
                t(f"    uint64_t {p.name}_len;")
            elif p.type.word == "sized":
                t(f"    uint32_t {p.name}_size;")
            elif self._varies(p):
                t(f"    uint64_t {p.name}_room;")
            if p.type.word == "struct" and p.goes:
                for name in self._stream_fields(p):
                    t(f"    uint64_t {p.name}_{name}_id;")
        t("    struct stub_call call;", "    CUresult ret;")
        if self._doubts():
            t("    bool ask;")
        t("")

    def _stream_fields(self, p: Param) -> list[str]:
        rules = self.arg.api.rules
        base = self.arg.abi.base
        return [
            r.field
            for known, some in rules.items()
            if base(known) == base(p.type.name)
            for r in some
            if r.kind == "handle" and r.handle == "stream"
        ]

    @staticmethod
    def _varies(p: Param) -> bool:
        """Is it an output whose length the caller decides?"""
        return (
            p.comes
            and p.type.word in ("array", "bytes", "text")
            and not p.type.count.isdigit()
            and not p.wire_only
        )

    def _lengths(self, t: Text) -> None:
        for p in self.call.args:
            if p.client:
                continue
            if p.type.word == "string":
                t(f"    {p.name}_len = {p.name} ? strlen({p.name}) + 1 : 0;")
                t(f"    if ({p.name}_len > {p.max})")
                t(f"        return stub_unsupported(WIRE_CALL_{self.call.name});")
            elif self._varies(p):
                room = self.arg.asked if self.arg.has_room(p) else self.arg.count
                t(f"    {p.name}_room = {p.name} ? {room(p)} : 0;")
        if self.req.parts:
            sizes = ["sizeof(*req)"] if self.req.fixed else ["(uint64_t)0"]
            for p in self.call.args:
                sizes += self.arg.part_sizes(p)
            t("    body_size = " + " +\n                ".join(sizes) + ";")
            t("    if (body_size > WIRE_BODY_MAX)")
            t(f"        return stub_unsupported(WIRE_CALL_{self.call.name});")

    def _make_handle(self, t: Text) -> None:
        """A posted call that makes an object of the current context asks here whether there is one."""
        here = not self.waits and self.call.family in ("stream", "event")
        if self.new:
            t(
                f"    ret = {'stub_ctx_enter' if here else 'stub_enter'}();",
                "    if (ret != CUDA_SUCCESS)",
                "        return ret;",
            )
        for p in self.new:
            t(f"    {p.name}_id = stub_handle_new({kind_of(p.type)});")
            t(f"    if (!{p.name}_id)", "        return CUDA_ERROR_OUT_OF_MEMORY;")

    def _forget(self, t: Text, indent: str) -> None:
        for p in self.new:
            t(f"{indent}stub_handle_del({kind_of(p.type)}, {p.name}_id);")

    def _begin(self, t: Text) -> None:
        size = "sizeof(*req)" if self.req.fixed else "0"
        if self.req.parts:
            size = "(uint32_t)body_size"
        t(f"    ret = stub_call_begin(&call, WIRE_CALL_{self.call.name}, {size});")
        if self.new:
            t("    if (ret != CUDA_SUCCESS) {")
            self._forget(t, "        ")
            t("        return ret;", "    }")
        else:
            t("    if (ret != CUDA_SUCCESS)", "        return ret;")

    def _store(self, t: Text) -> None:
        if not self.req.fixed:
            return
        t("    req = call.body;")
        for p in self.call.params:
            if not p.client and (p.goes or p.life == "new"):
                self.arg.store(t, p)
        if self.req.given:
            bits = [f"({n} ? {self.req.bit(n)} : 0)" for n in self.req.given]
            t("    req->given = " + " | ".join(bits) + ";")
        if self.req.has("zero"):
            t("    req->zero = 0;")
        if self.req.parts:
            t(f"    {self.req.name}_place(&room, req);")
            for p in self.call.args:
                self.arg.parts(t, p)

    def _dead(self) -> list[Param]:
        return [p for p in self.call.args if p.life == "del" and is_handle(p.type)]

    def _doubts(self) -> list[str]:
        if self.waits:
            return []
        return [d for p in self.call.args for d in self.arg.doubts(p)]

    def _weigh(self, t: Text) -> None:
        """Before the queue is claimed: a look at an argument may take a lock that
        others hold while they make calls."""
        doubts = self._doubts()
        if doubts:
            t("    ask = " + " ||\n          ".join(doubts) + ";")

    def _post(self, t: Text) -> None:
        """Without an answer, unless an argument is such that nobody should wait for it."""
        post = "stub_call_post"
        if self.call.server == "manual" and self.call.always:  # it may wait in a queue
            post = "stub_call_post_release"
        if self._doubts():
            t(f"    ret = ask ? stub_call_post_checked(&call) : {post}(&call);")
        else:
            t(f"    ret = {post}(&call);")
        self._finish(t)

    def _finish(self, t: Text) -> None:
        """After the frame has gone: ids become the caller's, or unknown."""
        if self.new:
            t("    if (ret != CUDA_SUCCESS) {")
            self._forget(t, "        ")
            t("        return ret;", "    }")
        for p in self.new:
            t(f"    *{p.name} = stub_gen_as({declare_cast(p)}, {p.name}_id);")
        if self._dead():  # unless the driver has refused it
            t("    if (ret != CUDA_SUCCESS)", "        return ret;")
        for p in self._dead():
            t(f"    stub_handle_del({kind_of(p.type)}, {StubArg.id_of(p)});")
        t("    return ret;")

    def _wait(self, t: Text) -> None:
        t("    ret = stub_call_wait(&call);")
        outs = [p for p in self.call.args if p.comes and p.life != "new"]
        if outs:
            test = "call.reply_size" if self.call.on_error else "ret == CUDA_SUCCESS"
            t(f"    if ({test}) {{")
            t(
                f"        if (!{self.rep.name}_open(&view, call.reply, call.reply_size, 0)) {{"
            )
            t("            stub_call_end(&call);")
            self._forget(t, "            ")
            t(
                f"            return stub_call_bad(WIRE_CALL_{self.call.name});",
                "        }",
            )
            for p in outs:
                self.arg.check_all(t, p)
            for p in outs:
                self.arg.load(t, p)
            t("    }")
        t("    stub_call_end(&call);")
        if not self.new:
            t("    if (ret == CUDA_SUCCESS)", "        ret = call.result;")
        self._finish(t)


def declare_cast(p: Param) -> str:
    """The C type of a handle output."""
    return declare(p).rsplit("*", 1)[0].strip()


def emit_export(t: Text, codecs: Codecs, call: Call, twin: bool) -> None:
    """One exported function; what is rare has a path of its own, so that it costs a test."""
    name = f"{call.name}_{call.twin}" if twin else call.name
    body = _body_call(codecs, call, twin)
    if not twin:
        emit_ahead(t, codecs, call)
    t(
        "__attribute__((cold, noinline)) static CUresult",
        prototype(call, f"stub_slow_{name}"),
        "{",
    )
    if _goes_somewhere(codecs, call):
        t("    struct stub_route route = STUB_ROUTE_HERE;", "    struct stub_link_switch link_switch;")
    t("    CUresult ret;", "")
    t("    if (stub_reporting)", "        stub_report_enter();")
    route.emit_call(t, codecs.api, codecs.abi, call, body, _cross_call(call, twin))
    if call.reply == "wait":
        link = "stub_route_link(&route)" if _goes_somewhere(codecs, call) else "stub_link_here()"
        t(f"    ret = stub_relay_result({link}, ret);")
    t("    if (stub_reporting)")
    t(f"        stub_report_leave(WIRE_CALL_{call.name}, ret);")
    t("    if (stub_tracing) {")
    trace.emit_use(t, call)
    t("    }", "    return ret;", "}", "")
    t(
        "GP_HOT GP_EXPORT CUresult" if call.hot else "GP_EXPORT CUresult",
        prototype(call, name),
        "{",
        "    if (unlikely(stub_slow))",
    )
    t(f"        return stub_slow_{name}({', '.join(names(call.args))});")
    if call.quick and not twin:
        body = f"stub_fast_{call.name}({', '.join(names(call.args))})"
    t(f"    return {body};", "}", "")


def _cross_call(call: Call, twin: bool) -> str:
    """Asks whether the call is between servers, and makes it then."""
    args = ["&ret"] + names(call.args)
    if twin and call.twin_as:
        return f"stub_multi_{call.twin_as}({', '.join(args + ['NULL', 'true'])})"
    if twin_extra(call):
        args.append("true" if twin else "false")
    return f"stub_multi_{call.name}({', '.join(args)})"


def _goes_somewhere(codecs: Codecs, call: Call) -> bool:
    return route.needs_route(codecs.api, codecs.abi, call)


def _takes_unsupported_kind(call: Call) -> bool:
    """Is it about an object that no call here makes?"""
    return any((p.type.elem or p.type).word in UNSUPPORTED_KINDS for p in call.args if p.dir == "in")


def _ahead(call: Call) -> list[str]:
    """Arrays of nodes, and what belongs to them, that may be longer than a frame: the
    names of where edges begin, where they end and their data, "NULL" for what the call
    does not have.  Empty for calls without such arrays."""
    nodes = [p.name for p in call.args if p.dir == "in" and p.type.elem and p.type.elem.word == "graphnode"]
    data = [p.name for p in call.args if p.dir == "in" and p.type.elem and p.type.elem.name == "CUgraphEdgeData"]
    return (nodes + ["NULL"])[:2] + (data + ["NULL"])[:1] if nodes and not call.internal else []


def emit_ahead(t: Text, codecs: Codecs, call: Call) -> None:
    """The body of a call whose nodes may be more than its frame holds."""
    ahead = _ahead(call)
    if not ahead or call.refused or call.uncarried:
        return
    own = dict(zip(ahead, ("nodes.from", "nodes.to", "nodes.data")), numDependencies="nodes.n")
    args = [own.get(name, name) for name in names(call.args)]
    if twin_extra(call):
        args.append("per_thread")
    prefix = "stub_impl_" if by_hand(call) else "stub_gen_"
    t(
        "static CUresult",
        prototype(call, f"stub_ahead_{call.name}", twin_extra(call)),
        "{",
        "    struct stub_graph_nodes nodes;",
        "    CUresult ret;",
        "",
        f"    ret = stub_graph_nodes_begin(&nodes, {', '.join(ahead)}, numDependencies);",
        "    if (ret == CUDA_SUCCESS)",
        f"        ret = {prefix}{call.name}({', '.join(args)});",
        "    return stub_graph_nodes_end(&nodes, ret);",
        "}",
        "",
    )


def _body_call(codecs: Codecs, call: Call, twin: bool) -> str:
    if (call.refused or call.uncarried) and not by_hand(call):
        refuse = "stub_gen_unsupported_kind" if _takes_unsupported_kind(call) else "stub_unsupported"
        return f"{refuse}(WIRE_CALL_{call.name})"
    args = names(call.args)
    if twin and call.twin_as:
        prefix = "stub_impl_" if by_hand(codecs.api.call(call.twin_as)) else "stub_gen_"
        return f"{prefix}{call.twin_as}({', '.join(args + ['NULL', 'true'])})"
    if twin_extra(call):
        args.append("true" if twin else "false")
    prefix = "stub_ahead_" if _ahead(call) else "stub_impl_" if by_hand(call) else "stub_gen_"
    return f"{prefix}{call.name}({', '.join(args)})"


def emit_weak(t: Text, codecs: Codecs, call: Call) -> None:
    """Stands in for a body that nobody has written.

    The generated one where there can be one, else a refusal, counted and named.
    """
    body = f"stub_unsupported(WIRE_CALL_{call.name})"
    if call.plain:
        StubBody(codecs, call).emit(t)
        args = names(call.args) + (["per_thread"] if twin_extra(call) else [])
        body = f"stub_gen_{call.name}({', '.join(args)})"
    t("__attribute__((weak)) CUresult")
    t(prototype(call, f"stub_impl_{call.name}", twin_extra(call)), "{")
    t(f"    return {body};", "}", "")
    if call.quick:
        t("__attribute__((weak)) CUresult", prototype(call, f"stub_fast_{call.name}"), "{")
        t(f"    return {_body_call(codecs, call, False)};", "}", "")


def emit_weak_cross(t: Text, call: Call) -> None:
    """Where nobody has written it, arguments are taken for one server's."""
    t("__attribute__((weak)) bool")
    head = route.cross_prototype(call, twin_extra(call)).removeprefix("bool ")
    t(head, "{", "    return false;", "}", "")


def emit_family(out: Output, codecs: Codecs, family: str) -> None:
    """stub_<family>.c"""
    t = Text()
    t(*(f'#include "{i}"' for i in INCLUDES), "", "#include <string.h>", "")
    calls = [c for c in codecs.api.calls if c.family == family and not c.internal]
    for c in calls:
        if by_hand(c):
            emit_weak(t, codecs, c)
        elif c.alias:
            alias.emit(t, codecs, c, "stub_gen_")
        elif c.on_wire:
            StubBody(codecs, c).emit(t)
        if c.links == "cross":
            emit_weak_cross(t, c)
    for c in calls:
        emit_export(t, codecs, c, twin=False)
        if c.twin:
            emit_export(t, codecs, c, twin=True)
    out.c_file(f"stub_{family}.c", f"Exported functions of the family {family}.", t)


def emit_headers(out: Output, codecs: Codecs) -> None:
    """cuda_api.h: what a driver exports; stub_manual.h: what is written by hand."""
    api, manual = Text(), Text()
    api('#include "cuda_abi.h"', "")
    manual('#include "cuda_abi.h"', "", "#include <stdbool.h>", "")
    for c in codecs.api.calls:
        if c.internal:
            continue
        api(f"CUresult {prototype(c, c.name)};")
        if c.twin:
            api(f"CUresult {prototype(c, c.name + '_' + c.twin)};")
        if by_hand(c):
            manual(f"/* {c.where}: {c.why_client} */")
            if c.plain:
                name = f"stub_gen_{c.name}"
                manual(f"CUresult {prototype(c, name, twin_extra(c))};")
            manual(f"CUresult {prototype(c, 'stub_impl_' + c.name, twin_extra(c))};")
            if c.quick:
                manual(f"CUresult {prototype(c, 'stub_fast_' + c.name)};")
        if c.links == "cross":
            manual("/* False: its arguments are of one server. */")
            manual(route.cross_prototype(c, twin_extra(c)) + ";")
    out.c_file("cuda_api.h", "Every function of the driver API.", api)
    about = (
        "Bodies by hand (stub_impl_; stub_fast_ is the one that is called while nothing is out of\n"
        " * the ordinary), and the generated ones they may use (stub_gen_)."
    )
    out.c_file("stub_manual.h", about, manual)


HELPERS = r"""
#include "cuda_abi.h"
#include "stub_call.h"
#include "stub_device.h"
#include "stub_result.h"
#include "wire_codec.h"
#include "wire_result.h"

#include <string.h>

/* client-stub/: a copy of @name that is never freed, the same for the same words. */
const char *stub_intern(const char *name);

/* client-stub/: an answer that cannot be; ends the link, returns what calls get then. */
CUresult stub_call_bad(uint16_t call);

#define stub_gen_as(type, id) ((type)(uintptr_t)(id))

/* Handles that the worker made are unknown here: their shape has to do. */
static inline bool
stub_gen_handle(enum wire_kind kind, uint64_t id)
{
    return wire_handle_is(id, kind) &&
           (wire_handle_index(id) >= WIRE_INDEX_SERVER || stub_handle_ok(kind, id));
}

/* How many elements to ask for where the caller has room for @n. */
static inline uint64_t
stub_gen_at_most(uint64_t n, uint64_t most)
{
    return n < most ? n : most;
}

/* More elements than a frame carries.  A count past any use was never set. */
static inline CUresult
stub_gen_too_many(uint16_t call, uint64_t count)
{
    return count > 1u << 20 ? CUDA_ERROR_INVALID_VALUE : stub_unsupported(call);
}

/* The call is about an object that only refused calls make: there is none. */
static inline CUresult
stub_gen_unsupported_kind(uint16_t call)
{
    (void)stub_unsupported(call);
    return CUDA_ERROR_INVALID_HANDLE;
}

/* The stream's id on the wire; true when there is none. */
static inline bool
stub_gen_stream(CUstream stream, bool per_thread, uint64_t *ret_id)
{
    uint64_t id = stub_stream_id(stream, per_thread);

    *ret_id = id;
    return id > 2 && !stub_gen_handle(WIRE_KIND_STREAM, id);
}

/* The value of an attribute, whose size its number tells. */
static inline uint64_t
stub_gen_load(const void *value, uint32_t size)
{
    return size == 4 ? *(const uint32_t *)value : *(const uint64_t *)value;
}

static inline void
stub_gen_store(void *value, uint32_t size, uint64_t v)
{
    if (size == 4)
        *(uint32_t *)value = (uint32_t)v;
    else
        *(uint64_t *)value = v;
}

/* As many elements as were asked for and came. */
static inline void
stub_gen_copy(void *to, uint64_t room, const void *from, uint32_t n, size_t elem)
{
    uint64_t count = n < room ? n : room;

    if (to && from && count)
        memcpy(to, from, count * elem);
}

/* Text, cut to the caller's room and always ended. */
static inline void
stub_gen_text(char *to, uint64_t room, const char *from, uint32_t n)
{
    uint64_t count = n < room ? n : room;

    if (!to || !room)
        return;
    if (count)
        memcpy(to, from, count);
    to[count < room ? count : room - 1] = '\0';
}

/* A name that lives as long as the process, like the driver's. */
static inline const char *
stub_gen_name(const char *name)
{
    return name ? stub_intern(name) : NULL;
}
"""


def _emit_devices(t: Text, name: str, devices: list[Rule], into: bool) -> None:
    """Device ordinals in a structure: the application's to the server's, or back."""
    t(
        "static inline void",
        f"stub_{'wire' if into else 'unwire'}_{name}({name} *s)",
        "{",
    )
    turn = "stub_device_wire" if into else "stub_device_from_wire"
    for r in devices:
        indent = "    "
        if r.when_field:
            t(f"    if (s->{r.when_field} == {r.when_value})")
            indent = "        "
        t(f"{indent}s->{r.field} = {turn}(s->{r.field});")
    t("}", "")


def emit_helpers(out: Output, codecs: Codecs) -> None:
    """stub_gen.h: what generated bodies share."""
    t = Text()
    t(HELPERS.strip("\n"), "")
    for enum, sizes in codecs.api.sizes.items():
        t(f"/* Bytes that a value of {enum} takes, 0 for one that is not known. */")
        t("static inline uint32_t", f"stub_size_{enum}({enum} attr)", "{")
        t("    switch ((int)attr) {")
        for enumerator, size in sizes:
            t(f"    case {enumerator}:", f"        return {size};")
        t("    default:", "        return 0;", "    }", "}", "")
    for known, rules in codecs.api.rules.items():
        devices = [r for r in rules if r.kind == "device"]
        for into in (True, False) if devices else ():
            _emit_devices(t, codecs.abi.base(known), devices, into)
    out.c_file("stub_gen.h", "What generated stubs share.", t)


def emit(out: Output, codecs: Codecs) -> None:
    """Everything the client compiles."""
    emit_headers(out, codecs)
    emit_helpers(out, codecs)
    for family in codecs.api.families:
        if family != "internal":
            emit_family(out, codecs, family)
