# SPDX-License-Identifier: Apache-2.0
"""The scheduler's web page in a real browser: what it shows, that it fetches nothing from
elsewhere, that it works on a phone and in the dark; GPUPOOL_PAGE_PICTURE=FILE keeps the
picture for docs/."""

import os
import struct
from pathlib import Path

from harness.browser import Browser
from test_view import View

HOSTILE = "<img src=x onerror=document.title='owned'>"


def shown(browser, selector):
    return browser.js(f"[...document.querySelectorAll({selector!r})].map(e => e.innerText)")


def drawn(browser, words):
    """The page has drawn itself once more than now."""
    before = browser.js("Number(document.body.dataset.drawn || 0)")
    browser.wait_js(f"Number(document.body.dataset.drawn || 0) > {before}", words)


def look_around(browser, view, names):
    case = browser.case
    browser.screen(1180, 900)
    browser.open(f"{view.base}/")
    browser.wait_js("document.getElementById('login') && !document.getElementById('login').hidden",
                    "the page asks for a token")
    browser.js("document.getElementById('token').value = 'wrong';"
               "document.querySelector('#login button').click()")
    browser.wait_js("document.getElementById('login-error').innerText.includes('wrong token')",
                    "a wrong token is refused in words")
    browser.js(f"document.getElementById('token').value = {view.token!r};"
               "document.querySelector('#login button').click()")
    browser.wait_js("!document.getElementById('view').hidden", "the right one shows the pool")
    case.equal(len(shown(browser, ".card")), 4, "cards")
    case.equal(browser.js("document.querySelectorAll('.bar:not(.thin) i').length"), len(names),
               "slices on their bars")
    for name in names:
        case.contains(browser.text(), name, "a session")
    case.equal(browser.js("document.querySelectorAll('svg polyline').length"), 3, "curves")


def use_filters(browser, names):
    browser.js("const f = document.querySelector('.filter[data-list=sessions]');"
               "f.elements.owner.value = 'bob@lab';"
               "f.elements.owner.dispatchEvent(new Event('change', {bubbles: true}))")
    drawn(browser, "the page is drawn with the filter")
    rows = shown(browser, "#sessions tbody tr")
    browser.case.equal(len(rows), 1, f"sessions of bob: {rows}")
    browser.js("document.querySelector('[data-span=week]').click()")
    drawn(browser, "the page is drawn with the week")
    browser.case.equal(shown(browser, "[aria-pressed=true]"), ["week"], "the chosen span")
    browser.js("f.elements.owner.value = '';"
               "f.elements.owner.dispatchEvent(new Event('change', {bubbles: true}));"
               "document.querySelector('[data-span=hour]').click()")
    drawn(browser, "the page is drawn without the filter")
    browser.case.equal(len(shown(browser, "#sessions tbody tr")), len(names), "all sessions")


def page_rules(case):
    """Another pool that does not answer, and a reservation that is far away."""
    rules, token = case.folder / "rules", case.folder / "token"
    token.write_text("of another pool")
    rules.write_text(f"[pool away]\nscheduler = 127.0.0.1:1\ntoken-file = {token}\n"
                     f"key-file = {next(case.folder.rglob('ticket-key.pub'))}\n"
                     "[reservation exam]\nowners = eve@*\ncards = 1\n"
                     "from = 2099-01-01T08:00Z\nuntil = 2099-01-02T08:00Z\n")
    return rules


def brightness(browser):
    return browser.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
                      ".slice(0, 3).reduce((a, b) => a + Number(b), 0)")


def test_page_shows_the_pool(case):
    browser = Browser(case)
    pool = case.pool(servers=2, cards=2)
    view = View(case, pool, "--rules", page_rules(case))
    held = [pool.session(core=core, memory="512MiB", options=("--owner", owner))
            for owner, core in (("ada@desk", 40), ("bob@lab", 25), ("eve@lab", 60))]
    waiting = pool.spawn("true", core=100, memory=None,
                         options=("--wait", "--cards", "4", "--span", "--owner", "kim@lab"))
    case.wait_for(lambda: view.read("queue")["waiting"] == 1, "a request waits")
    held[0].cudash().begin()
    names = [session["name"] for session in pool.sessions()]

    look_around(browser, view, names)
    use_filters(browser, names)
    case.contains(browser.text(), "kim@lab", "who waits")
    case.contains(browser.text(), "register", "an event")
    case.equal([row.split()[:2] for row in shown(browser, "#reserved tbody tr")],
               [["exam", "planned"]], "reservations")
    case.equal([row.split()[0] for row in shown(browser, "#pools tbody tr")], ["away"],
               "other pools")
    keep_picture(case, browser.photograph(case.folder / "page.png", full=True))
    light = brightness(browser)
    browser.screen(390, 844, dark=True, phone=True)
    case.check(brightness(browser) < light / 2, "dark where the user wants it dark")
    case.equal(browser.js("document.documentElement.scrollWidth <= innerWidth"), True,
               "on a phone nothing is wider than the screen")
    phone = browser.photograph(case.folder / "phone.png")
    case.equal(struct.unpack(">II", phone[16:24]), (390, 844), "the phone's picture")
    case.equal([url for url in browser.requests()
                if not url.startswith((view.base, "data:", "about:"))], [],
               "what was fetched from elsewhere")
    case.equal(browser.complaints(), [], "errors of scripts, and breaches of the policy")

    browser.screen(1180, 900)
    program = case.folder / HOSTILE
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    odd = pool.spawn(program, core=20, memory="256MiB", options=("--owner", "mallory@lab"))
    browser.wait_js("document.getElementById('sessions').innerText.includes('mallory')",
                    "the page shows a session that comes")
    case.contains(browser.text(), HOSTILE, "a program's name is text")
    case.equal(browser.js("document.title"), "gpupool", "a program's name became markup")
    odd.stdin.close()
    case.wait_for(lambda: len(pool.sessions()) == 3, "a session ends")
    browser.wait_js("!document.getElementById('sessions').innerText.includes('mallory')",
                    "the page follows the pool")
    waiting.terminate()
    browser.close()


def keep_picture(case, picture):
    case.check(picture[:8] == b"\x89PNG\r\n\x1a\n", "a picture")
    wanted = os.environ.get("GPUPOOL_PAGE_PICTURE")
    if wanted:
        Path(wanted).write_bytes(picture)
    case.check(len(picture) < 200 * 1024, f"a picture of {len(picture)} bytes")
