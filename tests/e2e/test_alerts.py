# SPDX-License-Identifier: Apache-2.0
"""deploy/prometheus/alerts.yaml: promtool reads it, its alerts fire when they should and
not before, and it names only metrics that a running pool has."""

import re
import shutil
import urllib.request
from pathlib import Path

ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "alerts.yaml"


def scrape(case, port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                timeout=case.patience) as answer:
        return answer.read().decode()


def test_alerts_name_metrics_that_a_pool_has(case):
    pool = case.pool(servers=1, cards=1)
    text = ""
    for program in ("gpupool-scheduler", "gpupool-server"):
        port = case.free_port()
        pool.restart(pool.pid(program), "--metrics-listen", f"127.0.0.1:{port}")
        case.wait_for(lambda: len(pool.status()["servers"]) == 1, "the server is there")
        case.wait_for(lambda port=port: "gpupool_card_slices" in scrape(case, port)
                      or "gpupool_server_registered 1" in scrape(case, port), "its metrics")
        text += scrape(case, port)
    there = set(re.findall(r"^(gpupool_\w+)", text, re.M))
    rules = "".join(re.findall(r"(?m)^ +expr: (.*)$", ALERTS.read_text("utf-8")))
    named = set(re.findall(r"gpupool_\w+", rules))
    case.check(len(named) >= 8, f"metrics of the alerts: {named}")
    case.equal(named - there, set(), "metrics that a pool does not have")


def test_alerts_fire_when_they_should(case):
    promtool = case.need_tool("promtool")
    case.run([promtool, "check", "rules", str(ALERTS)])
    shutil.copy(ALERTS, case.folder / "alerts.yaml")
    shutil.copy(case.data / "alerts.test.yaml", case.folder / "test.yaml")
    case.run([promtool, "test", "rules", str(case.folder / "test.yaml")])
