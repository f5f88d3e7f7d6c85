# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, driven over two pipes (the DevTools protocol): load a page, look at
it, click, type, photograph."""

import base64
import json
import os
import select
import subprocess
import time


class Browser:
    def __init__(self, case):
        self.case = case
        chromium = case.need_tool("chromium")
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()
        # The browser reads its descriptor 3 and writes to its descriptor 4.
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}', chromium,
             "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
             f"--user-data-dir={case.folder / 'browser'}", "about:blank"],
            pass_fds=(to_browser, from_browser), env=case.environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(case.folder / "browser.log", "ab"), start_new_session=True)
        case._processes.append(self.process)
        os.close(to_browser)
        os.close(from_browser)
        self.write_fd, self.read_fd = from_us, to_us
        self.buffer, self.last_id, self.events = b"", 0, []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self._call("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    # ---------------------------------------------------------------- protocol --

    def _call(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.last_id:
                self.case.check("error" not in answer, f"{method}: {answer.get('error')}")
                return answer["result"]
            self.events.append(answer)

    def _read(self):
        end = time.monotonic() + self.case.patience
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_fd], [], [], max(end - time.monotonic(), 0))
            data = os.read(self.read_fd, 1 << 20) if ready else b""
            if not data:
                self.case.fail("the browser does not answer:\n" + (
                    self.case.folder / "browser.log").read_text(errors="replace")[-2000:])
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    # ------------------------------------------------------------------- doing --

    def open(self, url):
        self._call("Page.navigate", url=url)

    def js(self, expression):
        """The value of a JavaScript expression in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True,
                            awaitPromise=True)
        self.case.check("exceptionDetails" not in answer,
                        f"{expression}: {answer.get('exceptionDetails')}")
        return answer["result"].get("value")

    def wait_js(self, expression, words):
        return self.case.wait_for(lambda: self.js(expression),
                                  lambda: f"{words}; the page says:\n{self.text()}")

    def text(self):
        return self.js("document.body ? document.body.innerText : ''")

    def screen(self, width, height, dark=False, phone=False):
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=phone)
        self._call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def photograph(self, path, full=False):
        """A PNG of the screen, or of the full height of the page."""
        answer = self._call("Page.captureScreenshot", format="png",
                            captureBeyondViewport=full, optimizeForSpeed=False)
        data = base64.b64decode(answer["data"])
        path.write_bytes(data)
        return data

    # ------------------------------------------------------------------ seeing --

    def requests(self):
        """The addresses of everything that was fetched so far."""
        self.js("1")  # takes what has arrived
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def complaints(self):
        """Errors of scripts and of the page's policy."""
        self.js("1")
        return [event["params"] for event in self.events
                if event.get("method") == "Runtime.exceptionThrown" or (
                    event.get("method") == "Log.entryAdded" and
                    event["params"]["entry"]["level"] == "error" and
                    "401" not in event["params"]["entry"]["text"])]

    def close(self):
        self._call("Browser.close") if self.process.poll() is None else None
        self.process.wait(self.case.patience)
        os.close(self.write_fd)
        os.close(self.read_fd)
