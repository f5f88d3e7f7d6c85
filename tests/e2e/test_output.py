# SPDX-License-Identifier: Apache-2.0
"""What kernels print comes out of the client, where a local program's would."""

import time

PRINTS = """.version 6.4
.target sm_52
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 list);
.global .align 1 .b8 words[15] = {112, 114, 105, 110, 116, 101, 100, 32, 37, 100, 33, 10, 0, 0, 0};
.visible .entry say(.param .u64 memory, .param .u32 n)
{
    .local .align 8 .b8 list[8];
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    mov.u64 %rd1, list;
    cvta.local.u64 %rd1, %rd1;
    ld.param.u32 %r1, [n];
    st.u32 [%rd1], %r1;
    mov.u64 %rd2, words;
    cvta.global.u64 %rd2, %rd2;
    {
        .param .b64 format;
        .param .b64 out;
        .param .b32 result;
        st.param.b64 [format], %rd2;
        st.param.b64 [out], %rd1;
        call.uni (result), vprintf, (format, out);
        ld.param.b32 %r2, [result];
    }
    ret;
}
"""

CLAIMS = """.version 6.4
.target sm_52
.address_size 64
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 word[4] = {111, 110, 101, 0};
.visible .entry say(.param .u64 memory, .param .u32 n)
{
    .reg .b64 %rd<3>;
    mov.u64 %rd1, word;
    cvta.global.u64 %rd2, %rd1;
    {
        .param .b64 m;
        .param .b64 f;
        .param .b32 l;
        .param .b64 n;
        .param .b64 s;
        st.param.b64 [m], %rd2;
        st.param.b64 [f], %rd2;
        st.param.b32 [l], 7;
        st.param.b64 [n], %rd2;
        st.param.b64 [s], 1;
        call.uni __assertfail, (m, f, l, n, s);
    }
    ret;
}
"""


def test_printf_of_a_kernel_reaches_the_clients_stdout(case):
    pool = case.pool()
    ptx = case.folder / "say.ptx"
    ptx.write_text(PRINTS)
    commands = case.folder / "commands"
    commands.write_text(f"init\ndevice 0\ncontext\nload {ptx}\nalloc 4096\nlaunch say 2 3 0 4711\nsync\n")
    session = pool.session()
    with open(commands, encoding="utf-8") as stdin:
        done = case.run([case.programs / "cudash"], stdin=stdin, env=session.env)
    case.equal(done.out.count("printed 4711!\n"), 6, f"lines printed by six threads:\n{done}")
    case.check("printed" not in pool.log(), "the server's log has the client's words")


def lines(path, printed=False):
    """Those that a kernel has printed, or the others."""
    return [line for line in path.read_text().splitlines() if line.startswith("printed") == printed]


def test_what_kernels_print_is_there_behind_every_wait(case):
    """Also where the server finds the work done when it looks: a driver writes it in its own call alone."""
    session = case.pool().session()
    ptx = case.folder / "say.ptx"
    ptx.write_text(PRINTS)
    for wait in ("stream", "event"):
        for late in (False, True):
            out = case.folder / f"{wait}-{late}"
            with open(out, "wb") as stdout:
                shell = case.spawn([case.programs / "cudash"], env=session.env, stdout=stdout)
            shell.stdin.write(f"init\ndevice 0\ncontext\nload {ptx}\nalloc 4096\nlaunch say 2 3 0 4711\n")
            if late:
                shell.stdin.flush()
                time.sleep(0.3)
            shell.stdin.write(f"wait {wait}\n")
            shell.stdin.flush()
            case.wait_for(lambda: len(lines(out)) >= 7, "every command is answered")
            case.equal(lines(out, printed=True), ["printed 4711!"] * 6, f"behind a wait for a {wait}, {late=}")
            shell.kill()
            shell.wait()


def test_an_assertion_that_failed_is_named_behind_a_wait(case):
    """Also where the server finds the error when it looks."""
    session = case.pool().session()
    ptx = case.folder / "claim.ptx"
    ptx.write_text(CLAIMS)
    for wait in ("sync", "wait stream"):
        out = case.folder / wait.replace(" ", "-")
        with open(out, "wb") as stderr:
            shell = case.spawn([case.programs / "cudash"], env=session.env, stderr=stderr)
        shell.stdin.write(f"init\ndevice 0\ncontext\nload {ptx}\nalloc 4096\nlaunch say 1 1 0 0\n")
        shell.stdin.flush()
        time.sleep(0.3)
        shell.stdin.write(f"{wait}\n")
        shell.stdin.flush()
        case.wait_for(lambda: "Assertion `one` failed" in out.read_text(), f"behind {wait}")
        shell.kill()
        shell.wait()


def test_what_a_driver_prints_itself_reaches_the_client(case):
    """A driver without our hook prints to its own stdout and stderr, like NVIDIA's."""
    if case.sanitizer:
        case.skip("the C library's streams are the sanitizer's there")
    pool = case.pool(driver="null", env={"NULLDRV_SAYS": "printed 4711"})
    out, err = case.folder / "out", case.folder / "err"
    env = pool.session().env
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        client = case.spawn([case.programs / "cudash"], env=env, stdout=stdout, stderr=stderr)
    client.stdin.write("init\ndevice 0\ncontext\n" + "sync\n" * 200)

    def piped():  # what comes through the pipe may miss an answer, not many
        client.stdin.write("sync\n")
        return "descriptor: printed 4711\n" in out.read_text()

    case.wait_for(piped, "what went past the C library reaches the client")
    client.stdin.close()
    client.wait()
    answers = len([line for line in out.read_text().splitlines() if line == "0"])
    case.check(answers > 200, f"{answers} answers")
    said = answers - 3  # init, device, context print nothing
    case.equal(out.read_text().count("stdout: printed 4711\n"), said, "lines on stdout")
    case.equal(err.read_text().count("stderr: printed 4711\n"), said, "lines on stderr")
    case.check("printed" not in pool.log(), "the server's log has the client's words")
