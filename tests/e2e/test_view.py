# SPDX-License-Identifier: Apache-2.0
"""The JSON API of the scheduler: what it says is what its description says, who may read
it, and that nobody who reads it keeps the pool from working."""

import json
import os
import re
import signal
import socket
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from harness.control import Link, WAIT_SERVERS, fields, number, text
from test_alerts import scrape
from test_hostile_scheduler import address

DESCRIPTION = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
ENDPOINTS = ("status", "servers", "cards", "cards?slices=true", "sessions", "queue",
             "events", "usage", "history", "history?span=week", "pools", "account",
             "account?since=2020-01-01&until=9999-12-31")


class View:
    """The API of a scheduler that was started again with --http and @options."""

    def __init__(self, case, pool, *options):
        self.case = case
        self.port = case.free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        pool.restart(pool.pid("gpupool-scheduler"), "--http", f"127.0.0.1:{self.port}",
                     *options)
        self.token = next(case.folder.rglob("client-token")).read_text().strip()
        case.wait_for(lambda: all(server["state"] == "alive" for server in
                                  pool.status()["servers"]), "the servers are back")

    def get(self, path, token=None, headers=()):
        """(status, body, headers); the body parsed where it is JSON."""
        request = urllib.request.Request(f"{self.base}{path}", headers={
            "Authorization": f"Bearer {self.token if token is None else token}",
            **dict(headers)})
        try:
            answer = urllib.request.urlopen(request, timeout=self.case.patience)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            body = answer.read()
            kind = answer.headers.get_content_type()
            return (answer.status, json.loads(body) if kind == "application/json" else body,
                    answer.headers)

    def read(self, name):
        status, body, _ = self.get(f"/api/v1/{name}")
        self.case.equal(status, 200, f"{name} is answered: {body}")
        return body

    def rows(self, name, limit):
        """All rows, page by page."""
        rows, after, separator = [], "", "&" if "?" in name else "?"
        while True:
            page = self.read(f"{name}{separator}limit={limit}" +
                             (f"&continue={after}" if after else ""))
            self.case.check(len(page["items"]) <= limit, f"{name}: more rows than asked for")
            rows += page["items"]
            after = page["continue"]
            if not after:
                return rows


def test_answers_are_what_the_description_says(case):
    try:
        import jsonschema
    except ImportError:
        case.skip("python3-jsonschema is not installed")
    description = json.loads(DESCRIPTION.read_text("utf-8"))
    try:
        from openapi_spec_validator import validate
        validate(description)
    except ImportError:
        print("openapi-spec-validator is not installed: the description itself is not checked")
    pool = case.pool(servers=2, cards=2)
    rules, token = case.folder / "rules", case.folder / "token"
    token.write_text("of another pool")
    rules.write_text(f"[pool away]\nscheduler = 127.0.0.1:1\ntoken-file = {token}\n"
                     f"key-file = {next(case.folder.rglob('ticket-key.pub'))}\n")
    view = View(case, pool, "--rules", rules)
    case.equal(view.read("openapi.json"), description, "the description that is served")
    session = pool.session(core=30, memory="64MiB")
    shell = session.cudash().begin()
    pool.cli("drain", "--scheduler", scheduler_socket(case), server_names(pool)[0])
    waiting = pool.spawn("true", core=100, memory=None, options=("--wait", "--cards", "3"))
    case.wait_for(lambda: view.read("queue")["waiting"] == 1, "a request waits")
    case.wait_for(lambda: view.read("history")["items"], "the history has begun")
    seen = set()
    for endpoint in ENDPOINTS:
        path = "/" + endpoint.partition("?")[0]
        schema = description["paths"][path]["get"]["responses"]["200"]["content"][
            "application/json"]["schema"]
        body = view.read(endpoint)
        jsonschema.Draft202012Validator(
            {**schema, "components": description["components"]}).validate(body)
        case.check("items" not in body or body["items"], f"{endpoint} has rows to check")
        seen.add(path)
    case.equal(seen, set(description["paths"]), "paths of the description that were read")
    error = description["components"]["schemas"]["Error"]
    for path, status in (("status?x=1", 400), ("sessions?limit=501", 400),
                         ("sessions?state=odd", 400), ("sessions?continue=..", 400),
                         ("nothing", 404)):
        got, body, _ = view.get(f"/api/v1/{path}")
        case.equal(got, status, f"status of {path}")
        jsonschema.Draft202012Validator(error).validate(body)
    waiting.terminate()
    shell.close()
    session.close()


def test_reservation_is_shown_where_its_cards_and_the_queue_are(case):
    pool = case.pool(servers=1, cards=2)
    rules = case.folder / "rules"
    now = time.time()
    moments = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + s)) for s in (-60, 3600, 7200)]
    rules.write_text(f"[reservation exam]\nowners = eve@*, mal@*\ncards = 1\n"
                     f"from = {moments[0]}\nuntil = {moments[1]}\n"
                     f"[reservation later]\nowners = *\ncards = 3\nlead = 1m\nend = yes\n"
                     f"from = {moments[1]}\nuntil = {moments[2]}\n")
    view = View(case, pool, "--rules", rules)
    case.wait_for(lambda: view.read("queue")["reservations"][0]["kept"] == 1, "a card is kept")
    exam, later = view.read("queue")["reservations"]
    case.equal((exam["name"], exam["state"], exam["owners"], exam["servers"], exam["cards"],
                exam["ends_others"]), ("exam", "now", "eve@*, mal@*", "*", 1, False), "exam")
    case.equal(exam["until_unix"], int(now + 3600), "its end")
    case.equal((later["state"], later["kept"], later["ends_others"],
                later["from_unix"] - later["chosen_unix"]), ("planned", 0, True, 60), "later")
    words = sorted(card["reserved"] for card in view.read("cards")["items"])
    case.equal(words[0], "", "the other card")
    case.contains(words[1], "reserved for exam, ", "the card")
    case.equal(json.loads(pool.cli("queue", "--json").out)["reservations"], [exam, later],
               "gpupool queue --json")
    table = pool.cli("queue").out
    case.check(re.search(r"(?m)^exam +now +.* 1 +1 +eve@\*, mal@\* +\*$", table), table)
    case.check(re.search(r"(?m)^later +planned +.* 3 +0 +\* +\*$", table), table)
    states = [line.split()[-1] for line in pool.cli("status", "--no-headers").out.splitlines()[:2]]
    case.equal(sorted(states), ["alive", "reserved"], "states of the cards")
    case.equal(pool.cli("servers", "-o", "wide", "--no-headers").out.split()[-1], "1",
               "reserved cards of the server")


def scheduler_socket(case):
    return f"unix:{next(case.folder.rglob('scheduler.sock'))}"


def server_names(pool):
    return [server["name"] for server in pool.status()["servers"]]


def test_pages_and_filters_show_each_row_once(case):
    pool = case.pool(servers=3, cards=2)
    view = View(case, pool)
    held = [pool.session(core=20, memory="16MiB", options=("--owner", owner))
            for owner in ("ada", "ada", "bob", "ada", "bob")]
    sessions = view.read("sessions")["items"]
    names = [session["name"] for session in sessions]
    case.equal(len(set(names)), len(held), "sessions, each once")
    for limit in (1, 2, 4, 500):
        case.equal([s["name"] for s in view.rows("sessions", limit)], names,
                   f"sessions in pages of {limit}")
        cards = [card["uuid"] for card in view.rows("cards", limit)]
        case.equal((len(cards), len(set(cards))), (6, 6), f"cards in pages of {limit}")
        case.equal(len(view.rows("servers", limit)), 3, f"servers in pages of {limit}")
        serials = [event["serial"] for event in view.rows("events", limit)]
        case.equal(serials, list(range(serials[0], 0, -1)), f"events in pages of {limit}")
    ada = view.rows("sessions?owner=ada", 2)
    case.equal([s["owner"] for s in ada], ["ada"] * 3, "the sessions of one owner")
    for server in server_names(pool):
        there = {s["name"] for s in sessions if s["slices"][0]["server"] == server}
        case.equal({s["name"] for s in view.rows(f"sessions?server={server}", 1)}, there,
                   f"the sessions on {server}")
        case.equal({c["server"] for c in view.rows(f"cards?server={server}", 1)}, {server},
                   f"the cards of {server}")
    parts = [part["session"] for card in view.rows("cards?slices=true", 2)
             for part in card["parts"]]
    case.equal(sorted(parts), sorted(names), "the parts of all cards")
    case.equal(view.read("sessions?owner=nobody")["items"], [], "sessions of nobody")
    case.equal(view.read("sessions?state=closing")["items"], [], "sessions that are closing")
    status = view.read("status")
    case.equal((status["cards"], status["sessions"], status["servers"]["alive"]), (6, 5, 3),
               "the pool in numbers")
    case.equal(status["core"]["given_percent"], 100, "five times 20 %")


def test_only_who_shows_a_token_may_look(case):
    pool = case.pool()
    view = View(case, pool)
    admin = next(case.folder.rglob("admin-token")).read_text().strip()
    for token, status in ((view.token, 200), (admin, 200), ("", 401), ("wrong", 401),
                          (view.token + "x", 401), (view.token[:-1], 401)):
        got, body, headers = view.get("/api/v1/sessions", token=token)
        case.equal(got, status, f"status with the token {token!r}: {body}")
        if status == 401:
            case.contains(headers["WWW-Authenticate"], "Bearer", "how to come back")
    case.equal(view.get("/", token="")[0], 200, "the page itself holds nothing of the pool")
    case.contains(view.get("/")[2]["Content-Security-Policy"], "default-src 'none'",
                  "the page's policy")
    case.equal(view.get("/healthz", token="")[1], b"ok\n", "health needs no token")
    # Another site's name that resolves to this address gets nothing, token or not.
    for host, status in (("localhost", 200), ("127.0.0.1:1", 200), ("evil.example", 421),
                         ("localhost.evil.example", 421)):
        case.equal(view.get("/api/v1/status", headers={"Host": host})[0], status,
                   f"status under the name {host}")
    for method in ("POST", "PUT", "DELETE"):
        case.contains(exchange(view, f"{method} /api/v1/sessions HTTP/1.0\r\n"
                                     "Content-Length: 2\r\n\r\n{}"), " 405 ", method)


def exchange(view, request):
    with socket.create_connection(("127.0.0.1", view.port), view.case.patience) as link:
        link.sendall(request.encode())
        answer = b""
        while data := link.recv(65536):
            answer += data
        return answer.decode()


def test_wrong_tokens_are_limited(case):
    pool = case.pool()
    view = View(case, pool, "--rate-denials", "1")
    answers = [view.get("/api/v1/status", token="guess") for _ in range(14)]
    case.equal({status for status, _, _ in answers}, {401, 429}, "guesses")
    case.check(int(answers[-1][2]["Retry-After"]) >= 1, "when to come back")


def test_clear_text_is_for_loopback_and_tls_for_the_rest(case):
    pool = case.pool()
    openssl = case.need_tool("openssl")
    case.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt",
              "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem", "-out",
              "cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext",
              "subjectAltName=DNS:localhost"])
    scheduler = case.build / "bin" / "gpupool-scheduler"
    state = ("--state-dir", case.folder / "other", "--listen", "127.0.0.1:0")
    refused = case.run([scheduler, *state, "--http", "0.0.0.0:0"], status=1)
    case.contains(refused.err, "clear text", "why a token must not go there")
    refused = case.run([scheduler, *state, "--http", "127.0.0.1:0", "--http-cert",
                        case.folder / "cert.pem"], status=1)
    case.contains(refused.err, "go together", "a certificate without its key")
    view = View(case, pool, "--http-cert", case.folder / "cert.pem", "--http-key",
                case.folder / "key.pem")
    trust = ssl.create_default_context(cafile=case.folder / "cert.pem")
    request = urllib.request.Request(f"https://localhost:{view.port}/api/v1/status", headers={
        "Authorization": f"Bearer {view.token}"})
    with urllib.request.urlopen(request, timeout=case.patience, context=trust) as answer:
        case.equal(json.load(answer)["leads"], True, "an answer over TLS")
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{view.port}/", timeout=case.patience)
        case.fail("clear text is answered where TLS is spoken")
    except OSError:
        pass


def test_own_user_and_an_open_view_need_no_token(case):
    pool = case.pool()
    path = case.folder / "view.sock"
    pool.restart(pool.pid("gpupool-scheduler"), "--http", f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        link.sendall(b"GET /api/v1/status HTTP/1.0\r\n\r\n")
        answer = link.makefile("rb").read()
    case.contains(answer.decode(), '"leads":true', "what the scheduler's own user reads")
    view = View(case, pool, "--http-public")
    case.equal(view.get("/api/v1/status", token="")[0], 200, "an open view")
    address = next(case.folder.rglob("scheduler.ready")).read_text().strip()
    wrong = case.folder / "wrong"
    wrong.write_text("wrong\n")
    other = pool.cli("status", "--token-file", wrong, "--scheduler", address, status=None)
    case.check(other.status != 0, "an open view opens nothing else")


def test_readers_that_do_not_read_hold_nobody_up(case):
    pool = case.pool(servers=1, cards=2)
    view = View(case, pool)
    idle = []
    request = (f"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40).encode()
    for _ in range(40):
        link = socket.create_connection(("127.0.0.1", view.port), case.patience)
        link.sendall(request)  # and never reads
        idle.append(link)
        half = socket.create_connection(("127.0.0.1", view.port), case.patience)
        half.sendall(b"GET /api/v1/status HTTP/1.1\r\nX: ")
        idle.append(half)
    pool.run("true", core=10, memory="16MiB")
    case.wait_for(lambda: reads(view), "the API is answered beside them")
    long = exchange(view, "GET /api/v1/sessions?owner=" + "x" * 20000 + " HTTP/1.0\r\n\r\n")
    case.check(" 414 " in long or " 431 " in long, f"a path of 20,000 bytes: {long[:200]}")
    for link in idle:
        link.close()


def reads(view):
    try:
        return view.get("/api/v1/status")[0] == 200
    except OSError:
        return False


def test_command_line_reads_the_same_pages(case):
    pool = case.pool(servers=2, cards=1)
    held = [pool.session(core=20, memory="16MiB", options=("--owner", owner))
            for owner in ("ada", "bob", "ada")]
    names = [session["name"] for session in pool.sessions()]
    rows = pool.cli("sessions").out.splitlines()
    case.equal([row.split()[0] for row in rows], ["SESSION", *names], "all sessions")
    rows = pool.cli("sessions", "--owner", "ada").out.splitlines()
    case.equal([row.split()[2] for row in rows], ["OWNER", "ada", "ada"], "one owner's")
    document = json.loads(pool.cli("sessions", "--owner", "ada", "--json").out)
    case.equal([s["owner"] for s in document["sessions"]], ["ada", "ada"], "the same as JSON")
    case.equal(len(document["servers"]), 2, "what is not filtered is there")
    server = server_names(pool)[1]
    rows = pool.cli("servers", "--server", server, "--state", "alive").out.splitlines()
    case.equal([row.split()[0] for row in rows], ["SERVER", server], "one server")
    case.contains(pool.cli("sessions", "--state", "closing").out, "no sessions", "none of them")
    odd = pool.cli("sessions", "--state", "odd", status=2)
    case.contains(odd.err, "server-dead", "the states that there are")
    for session in held:
        session.close()
    case.wait_for(lambda: not pool.sessions(), "the sessions end")
    events = json.loads(pool.cli("events", "--json").out)["events"]
    case.equal([e["kind"] for e in events], ["end"] * 3 + ["open"] * 3 + ["register"] * 2,
               "events, newest first")
    case.equal({e["session"] for e in events[:3]}, set(names), "whose end it was")
    case.equal(len(pool.cli("events", "--owner", "bob").out.splitlines()), 3, "events of bob")
    watch = case.spawn([pool.gpupool, "servers", "--watch"], env=pool.env)
    for _ in range(2):  # twice the same
        case.contains(watch.stdout.readline(), "SERVER", "a look")
        for _ in range(2):
            watch.stdout.readline()
    watch.terminate()


def test_wait_for_servers_is_answered_with_numbers_where_no_rows_are_wanted(case):
    """As `gpupool up` asks, whose pool may be large."""
    pool = case.pool(servers=2, cards=3)
    token = next(case.folder.rglob("client-token")).read_text().strip()
    for servers in (1, 2):
        with Link(case, address(pool)) as link:
            code, reply = link.ask(WAIT_SERVERS, number(1, servers) + number(2, 5000) +
                                   text(3, token) + number(80, 1))
        case.equal(code, 0, "the answer")
        page = dict(fields(dict(reply)[60]))
        case.equal(dict(fields(page[1]))[9], 6, "cards of the pool")
        case.check(2 not in page, "rows of servers")


def certificate(case, name, days=2):
    """A certificate of its own and its key, as texts in PEM form."""
    openssl = case.need_tool("openssl")
    case.run([openssl, "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
              "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}",
              "-addext", "subjectAltName=DNS:localhost"])
    case.run([openssl, "x509", "-req", "-in", f"{name}.csr", "-signkey", f"{name}.key", "-days",
              str(days), "-copy_extensions", "copy", "-out", f"{name}.crt"])
    return [(case.folder / f"{name}.{kind}").read_text(encoding="ascii") for kind in ("crt", "key")]


def test_certificate_that_has_ended_is_named_and_counted(case):
    pool = case.pool()
    files = [case.folder / "web.crt", case.folder / "web.key"]
    for file, text in zip(files, certificate(case, "old", days=-1)):
        file.write_text(text, encoding="ascii")
    port = case.free_port()
    View(case, pool, "--http-cert", files[0], "--http-key", files[1], "--metrics-listen",
         f"127.0.0.1:{port}")
    case.contains(pool.log(), f"--http-cert {files[0]} ended 24 hours ago", "the log")

    def ends():
        return int(re.search(r"^gpupool_http_certificate_expiry_timestamp_seconds (\d+)$",
                             scrape(case, port), re.M)[1])

    case.check(-2 * 86400 < ends() - time.time() < -80000, f"it ends at {ends()}, now is {time.time()}")
    for file, text in zip(files, certificate(case, "new")):
        file.write_text(text, encoding="ascii")
    os.kill(pool.pid("gpupool-scheduler"), signal.SIGHUP)
    case.wait_for(lambda: "another certificate is shown from now on" in pool.log(), "it is taken")
    case.check(86400 < ends() - time.time() < 3 * 86400, f"the new one ends at {ends()}")
    case.equal(pool.log().count(f"--http-cert {files[0]} end"), 1, "words about the old one alone")


def test_certificate_that_was_renewed_is_shown_after_a_reload(case):
    pool = case.pool()
    old, new = certificate(case, "old"), certificate(case, "new")
    files = [case.folder / "web.crt", case.folder / "web.key"]

    def put(texts):
        for file, text in zip(files, texts):
            file.write_text(text, encoding="ascii")

    def shown():
        return ssl.get_server_certificate(("127.0.0.1", view.port)).strip()

    def reload(words):
        before = pool.log().count(words)
        os.kill(pool.pid("gpupool-scheduler"), signal.SIGHUP)
        case.wait_for(lambda: pool.log().count(words) > before, words)

    put(old)
    view = View(case, pool, "--http-cert", files[0], "--http-key", files[1])
    case.equal(shown(), old[0].strip(), "the certificate at first")
    put((new[0], old[1]))
    reload("stay as they were: --http-cert")
    case.contains(pool.log(), "PEM files that belong together?", "why it is not taken")
    case.equal(shown(), old[0].strip(), "the certificate while the key is another one's")
    trust = ssl.create_default_context(cafile=case.folder / "old.crt")
    asks = trust.wrap_socket(socket.create_connection(("127.0.0.1", view.port)),
                             server_hostname="localhost")
    asks.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    put(new)
    reload("another certificate is shown from now on")
    case.equal(shown(), new[0].strip(), "the certificate after it was renewed")
    # Who was asking gets an answer, and connects anew for the next one.
    asks.sendall(b"\r\n")
    asks.settimeout(case.patience)
    said = asks.makefile("rb").read()
    case.check(said.startswith(b"HTTP/1.1 200"), "what was being asked is answered")
    case.check(said.rstrip().endswith(b"</html>"), "all of it")
    case.contains(said.partition(b"\r\n\r\n")[0].decode(), "Connection: close", "the last answer")
    trust = ssl.create_default_context(cafile=case.folder / "new.crt")
    for _ in range(2):  # and a reload without another one
        request = urllib.request.Request(f"https://localhost:{view.port}/api/v1/status",
                                         headers={"Authorization": f"Bearer {view.token}"})
        with urllib.request.urlopen(request, timeout=case.patience, context=trust) as answer:
            case.equal(json.load(answer)["leads"], True, "an answer over TLS")
        reload("rules, tokens and key were read again")
    case.equal(pool.log().count("another certificate"), 1, "certificates that were taken")
