# SPDX-License-Identifier: Apache-2.0
"""Files of tokens with faults: the words name the file, the line and what is wanted, and a
comment is no token."""

import stat
import urllib.error
import urllib.request

from test_init import Hosts

TOKEN = "0123456789abcdef"


def test_fault_in_a_file_of_tokens_is_named_with_its_line(case):
    file = case.folder / "tokens"
    # Empty lines and comments count as lines, and Windows' ends of lines end them.
    for option, text, words in (
            ("--users-file", f"# people\r\n\r\nann;open:{TOKEN}\r\n",
             "3: NAME:RIGHT,...:TOKEN is wanted"),
            ("--users-file", f"ann:open:{TOKEN}\nbob:reed:x{TOKEN}\n",
             "2: reed: a right is open, read, end, drain or forward"),
            ("--users-file", f"ann:open:{TOKEN}\n\nbob:open:{TOKEN}\n",
             "3: the token of bob is somebody else's as well"),
            ("--users-file", "#\nann:open:short\n", "2: the token of ann has not 16 to 255"),
            ("--server-tokens-file", f"a:{TOKEN}\nb\n", "2: NAME:TOKEN is wanted"),
            ("--client-token-file", f"{TOKEN}\n{'x' * 256}\n", "2: a token has at most 255"),
            ("--admin-token-file", "# nothing else\n", " no token")):
        file.write_text(text, encoding="ascii", newline="")
        file.chmod(0o600)
        done = case.run([case.build / "bin" / "gpupool-scheduler", "--listen", "127.0.0.1:0",
                         "--state-dir", case.folder / "state", option, file], status=1)
        case.contains(done.err, f"{file}:{words}", f"{option} {text!r}")


def status_of(case, port, token):
    """How a request of the API with this token is answered."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/status",
                                     headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=case.patience) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_comment_in_a_roles_file_is_no_token(case):
    hosts = Hosts(case)
    file = hosts.dir / "scheduler" / "client-token"
    token = file.read_text(encoding="ascii").strip()
    file.write_text(f"#guessed\n{token}\n", encoding="ascii")
    port = case.free_port()
    hosts.scheduler("--http", f"127.0.0.1:{port}")
    case.equal(status_of(case, port, token), 200, "the token below the comment")
    case.equal(status_of(case, port, "#guessed"), 401, "the comment as a token")


def test_file_of_tokens_that_everybody_can_read_is_named(case):
    hosts = Hosts(case)
    file = hosts.dir / "scheduler" / "client-token"
    file.chmod(stat.S_IMODE(file.stat().st_mode) | stat.S_IROTH)
    hosts.scheduler()
    case.contains(hosts.log("scheduler").read_text(),
                  f"{file}: mode 0604 lets everybody read the tokens (chmod o= helps)",
                  "the scheduler's log")


def test_file_without_a_token_is_named_where_it_is_shown(case):
    hosts = Hosts(case)
    hosts.scheduler()
    server = hosts.server(name="node")
    log = hosts.log("node")
    for text in ("", "\n", "# the pool's\n"):
        for folder in ("client", "server"):
            file = hosts.dir / folder / "token"
            kept = file.read_text(encoding="ascii")
            file.write_text(text, encoding="ascii")
            words = f"{file}: its first line is no token"
            if folder == "client":
                case.contains(hosts.vecadd(status=2).err, words, "gpupool run")
            else:
                before = log.read_text().count(words)
                server.send_signal(1)
                case.wait_for(lambda: log.read_text().count(words) > before, words)
            file.write_text(kept, encoding="ascii")
    case.contains(hosts.vecadd().out, ": ok\n", "a program on the server, whose token stayed")
