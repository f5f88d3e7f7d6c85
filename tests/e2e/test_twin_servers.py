# SPDX-License-Identifier: Apache-2.0
"""Cards that two servers register, one after the other or both, played by hand."""

import json

from harness.control import REGISTER, Link, number, text

CONFLICT = 7


class Scheduler:
    def __init__(self, case):
        self.case = case
        self.port = case.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.start()

    def start(self):
        roles = [word for role in ("client", "server", "admin")
                 for word in ("--allow-anonymous", role)]
        self.process = self.case.spawn(["gpupool-scheduler", "--listen", self.address,
                                        "--state-dir", self.case.folder / "state", *roles])
        self.case.wait_for(lambda: self.servers() is not None, "it answers")

    def restart(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def servers(self):
        out = self.case.run(["gpupool", "status", "--json", "--scheduler", self.address],
                            status=None)
        return json.loads(out.out)["servers"] if out.status == 0 else None

    def cordoned(self, name):
        return [card["cordoned"] for server in self.servers() if server["name"] == name
                for card in server["cards"]]

    def register(self, name, *cards):
        """The connection of that server, and the answer."""
        link = Link(self.case, ("127.0.0.1", self.port))
        body = number(1, 1) + text(3, name) + text(4, "127.0.0.1:9")
        for index, uuid in enumerate(cards):
            body += text(9, text(1, uuid * 16) + text(2, "card") + number(3, 4 << 30) +
                         number(4, 2) + number(5, 8) + number(6, 6) + number(7, index))
        return link, link.ask(REGISTER, body)


def test_cordon_goes_with_the_card_to_a_server_of_another_name(case):
    scheduler = Scheduler(case)
    link, answer = scheduler.register("old", b"\x01", b"\x02")
    case.equal(answer[0], 0, "a server with two cards")
    case.run(["gpupool", "cordon", "old/0", "--scheduler", scheduler.address])
    case.equal(scheduler.cordoned("old"), [True, False], "cards of the server")
    link.close()
    case.wait_for(lambda: scheduler.servers()[0]["state"] != "alive", "the server has gone")
    # Its host was set up anew.
    link, answer = scheduler.register("new", b"\x01", b"\x02")
    case.equal(answer[0], 0, "the same cards under another name")
    case.equal(scheduler.cordoned("new"), [True, False], "the same cards")
    scheduler.restart()
    case.equal(scheduler.cordoned("new"), [True, False], "and after a restart")
    case.run(["gpupool", "uncordon", "new/0", "--scheduler", scheduler.address])
    case.equal(scheduler.cordoned("new"), [False, False], "when that is taken back")
    link.close()


def test_server_that_was_refused_is_not_shown_as_one_that_is_gone(case):
    scheduler = Scheduler(case)
    link, answer = scheduler.register("node", b"\x01")
    case.equal(answer[0], 0, "a server")
    twin, answer = scheduler.register("twin", b"\x01")
    case.equal(answer[0], CONFLICT, "a server that has a card of the first")
    case.contains(answer[1], "is registered by server node as well", "why")
    twin.close()
    case.equal([(s["name"], s["state"]) for s in scheduler.servers()], [("node", "alive")],
               "the servers of the pool")
    other, answer = scheduler.register("twin", b"\x02")
    case.equal(answer[0], 0, "the same name with another card")
    case.equal(len(scheduler.servers()), 2, "servers of the pool now")
    link.close()
    other.close()
