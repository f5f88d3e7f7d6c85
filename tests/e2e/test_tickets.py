# SPDX-License-Identifier: Apache-2.0
"""Tickets that are not good: that attachment ends, everybody else goes on, and
the server's log says why."""


def attach(case, session, ticket, server=None, secret=None):
    """cuInit with this ticket, and the session's secret or another; the Result."""
    commands = case.folder / "commands"
    commands.write_text("init\n")
    env = {key: value for key, value in session.env.items() if key != "GPUPOOL_SESSION_FILE"}
    file = case.folder / "secret"
    file.write_text((secret or session.field("secret")) + "\n")
    env.update(GPUPOOL_SERVER=server or session.field("server"), GPUPOOL_TICKET=ticket,
               GPUPOOL_TICKET_SECRET_FILE=str(file))
    with open(commands, encoding="utf-8") as stdin:
        return case.run([case.programs / "cudash"], stdin=stdin, env=env)


def refused(case, pool, session, ticket, word, server=None):
    """The ticket is refused with @word, in the client's line and in the log."""
    done = attach(case, session, ticket, server)
    case.check(done.out.split()[0] != "0", f"cuInit succeeded ({word}):\n{done}")
    case.contains(done.err, word, "what the user is told")
    case.wait_for(lambda: word in pool.log(), f"the server's log says '{word}'")
    case.check(ticket not in pool.log(), "the ticket itself stands in a log")


def made(case, pool, session, *changes):
    """The session's ticket with changed claims, signed by the scheduler's key."""
    keys = [path for path in case.folder.rglob("*")
            if path.is_file() and "PRIVATE KEY" in path.read_text(errors="replace")]
    case.equal(len(keys), 1, f"private keys below the private folder: {keys}")
    source = case.folder / "ticket"
    source.write_text(session.field("ticket") + "\n")
    with open(source, encoding="utf-8") as stdin:
        done = case.run([case.build / "tests" / "e2e" / "mkticket", keys[0],
                         server_of(pool, session), *changes], stdin=stdin)
    return done.out.strip()


def server_of(pool, session):
    for server in pool.status()["servers"]:
        if server["endpoint"] == session.field("server"):
            return server["name"]
    return pool.case.fail("no server has the endpoint of the session file")


def test_bad_tickets_are_refused_and_the_good_one_goes_on(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    shell = session.cudash().begin()
    good = session.field("ticket")

    forged = good[:-6] + ("AAAAAA" if good[-6:] != "AAAAAA" else "BBBBBB")
    refused(case, pool, session, forged, "forged")
    refused(case, pool, session, "a" * 100, "malformed")
    refused(case, pool, session, made(case, pool, session, "expires=-5"), "expired")
    refused(case, pool, session, made(case, pool, session, "not_before=1000", "expires=2000"),
            "not valid yet")
    refused(case, pool, session, made(case, pool, session, "server=elsewhere"), "another server")

    case.equal(shell("alloc", 4096)[0], 0, "the session that was there before")
    case.equal(attach(case, session, good).out, "0\n", "the good ticket")


def test_ticket_is_good_for_its_own_server_only(case):
    pool = case.pool(servers=2, cards=1)
    session = pool.session(core=20, memory="128MiB")
    others = [server["endpoint"] for server in pool.status()["servers"]
              if server["endpoint"] != session.field("server")]
    case.equal(len(others), 1, "the other server")
    refused(case, pool, session, session.field("ticket"), "another server", others[0])


def test_ticket_dies_with_its_session(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    ticket, server = session.field("ticket"), session.field("server")
    secret = session.field("secret")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: attach(case, session, ticket, server, secret).out != "0\n",
                  "the ticket of a closed session is refused")
