# SPDX-License-Identifier: Apache-2.0
"""Cards that two servers register, one after the other or both, played by hand."""

import json

from harness.control import REGISTER, Link, number, text

CONFLICT = 7


class Scheduler:
    def __init__(self, case, *options):
        self.case = case
        self.options = options
        self.port = case.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.start()

    def start(self):
        roles = [word for role in ("client", "server", "admin")
                 for word in ("--allow-anonymous", role)]
        self.process = self.case.spawn(["gpupool-scheduler", "--listen", self.address,
                                        "--state-dir", self.case.folder / "state",
                                        "--heartbeat-ms", 500, *roles, *self.options])
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

    def register(self, name, *cards, token=""):
        """The connection of that server, and the answer."""
        link = Link(self.case, ("127.0.0.1", self.port))
        body = number(1, 1) + text(2, token) + text(3, name) + text(4, "127.0.0.1:9")
        for index, uuid in enumerate(cards):
            body += text(9, text(1, uuid * 16) + text(2, "card") + number(3, 4 << 30) +
                         number(4, 2) + number(5, 8) + number(6, 6) + number(7, index))
        return link, link.ask(REGISTER, body)

    def register_in_time(self, name, *cards):
        """The connection of that server, which tries again as a real one does."""
        links = []

        def registered():
            link, answer = self.register(name, *cards)
            links.append(link)
            return answer[0] == 0

        self.case.wait_for(registered, f"{name} has its cards")
        for link in links[:-1]:
            link.close()
        return links[-1]


def test_cordon_goes_with_the_card_to_a_server_of_another_name(case):
    scheduler = Scheduler(case)
    link, answer = scheduler.register("old", b"\x01", b"\x02")
    case.equal(answer[0], 0, "a server with two cards")
    case.run(["gpupool", "cordon", "old/0", "--scheduler", scheduler.address])
    case.equal(scheduler.cordoned("old"), [True, False], "cards of the server")
    link.close()
    case.wait_for(lambda: scheduler.servers()[0]["state"] != "alive", "the server has gone")
    # Its host was set up anew.
    link = scheduler.register_in_time("new", b"\x01", b"\x02")
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


def test_card_is_its_servers_after_a_restart_of_the_scheduler(case):
    scheduler = Scheduler(case)
    scheduler.register("node", b"\x01", b"\x02")[0].close()
    scheduler.restart()
    # Whoever comes first, a mistake or not, would have the card, and its server nothing.
    twin, answer = scheduler.register("twin", b"\x03", b"\x01")
    case.equal(answer[0], CONFLICT, "a card of a server that is expected back")
    case.contains(answer[1], "belongs to server node, which may come back; try again in ",
                  "why")
    twin.close()
    link, answer = scheduler.register("node", b"\x01", b"\x02")
    case.equal(answer[0], 0, "its server comes back")
    link.close()
    # It does not come back any more: its cards are not lost.
    scheduler.register_in_time("twin", b"\x03", b"\x01").close()


def test_no_other_server_takes_the_cards_of_one_with_a_token_of_its_own(case):
    tokens = case.folder / "tokens"
    tokens.write_text("node:the-token-of-node-is-this\nthief:the-token-of-thief-is-this\n")
    tokens.chmod(0o600)
    scheduler = Scheduler(case, "--server-tokens-file", tokens)
    node = {"token": "the-token-of-node-is-this"}
    thief = {"token": "the-token-of-thief-is-this"}
    scheduler.register("node", b"\x01", b"\x02", **node)[0].close()
    scheduler.restart()
    link, answer = scheduler.register("thief", b"\x01", **thief)
    link.close()
    case.equal(answer[0], CONFLICT, "a card of a server that is not connected")
    case.contains(answer[1], "belongs to server node, which has a token of its own", "why")
    case.contains(answer[1], "gpupool forget node", "what helps")
    # The server itself gives a card up: it was put into another host.
    link, answer = scheduler.register("node", b"\x02", **node)
    case.equal(answer[0], 0, "the server without one of its cards")
    other, answer = scheduler.register("thief", b"\x01", **thief)
    case.equal(answer[0], 0, "the card's new server")
    other.close()
    link.close()
    case.wait_for(lambda: all(s["state"] == "dead" for s in scheduler.servers()), "both are dead")
    case.run(["gpupool", "forget", "node", "--scheduler", scheduler.address])
    other, answer = scheduler.register("thief", b"\x01", b"\x02", **thief)
    case.equal(answer[0], 0, "the card of a server that was forgotten")
    other.close()
