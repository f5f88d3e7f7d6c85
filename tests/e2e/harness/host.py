# SPDX-License-Identifier: Apache-2.0
"""A pool of one server that tells its metrics."""

import re
import urllib.request


class Host:
    """Its .pool, and .metric(name) of gpupool_server_*; more options for the server."""

    def __init__(self, case, *options):
        self.case = case
        self.pool = case.pool()
        self.starts, self.server = 0, self.pool.pid("gpupool-server")
        self.restart("--metrics-listen", "127.0.0.1:0", *options)

    def restart(self, *options):
        """Kill -9 and start the server again, with more options."""
        self.server = self.pool.restart(self.server, *options)
        self.starts += 1
        port = []

        def told():
            port[:] = re.findall(r"metrics on port (\d+)", self.pool.log())
            return len(port) >= self.starts
        self.case.wait_for(told, "the server tells its metrics port")
        self.url = f"http://127.0.0.1:{port[-1]}"

    def metrics(self, page="/metrics"):
        return urllib.request.urlopen(self.url + page,
                                      timeout=self.case.patience).read().decode()

    def metric(self, name):
        found = re.search(rf"^gpupool_server_{name} (\S+)$", self.metrics(), re.M)
        self.case.check(found, f"no {name} in the metrics")
        return float(found[1])
