# SPDX-License-Identifier: Apache-2.0
"""deploy/prometheus/alerts.yaml: promtool reads it, its alerts fire when they should and
not before; it and the dashboard of deploy/grafana name only metrics that a running pool
has."""

import json
import re
import shutil
import urllib.request
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "gpupool.json"


def scrape(case, port, page="metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}",
                                timeout=case.patience) as answer:
        return answer.read().decode()


def check_dashboard(case, there):
    """Every panel has a title, a place of its own and questions about what is there."""
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    panels = dashboard["panels"]
    case.equal(len({panel["id"] for panel in panels}), len(panels), "ids of panels")
    squares = [(x, y) for panel in panels for place in [panel["gridPos"]]
               for x in range(place["x"], place["x"] + place["w"])
               for y in range(place["y"], place["y"] + place["h"])]
    case.equal(len(set(squares)), len(squares), "panels lie over each other")
    case.check(max(x for x, _ in squares) < 24, "a panel is outside")
    named = set()
    for panel in panels:
        case.check(panel["title"] and panel["targets"], f"an empty panel: {panel}")
        for target in panel["targets"]:
            found = set(re.findall(r"gpupool_\w+", target["expr"]))
            case.check(found, f"{panel['title']} asks for nothing: {target['expr']}")
            case.equal(target["expr"].count("("), target["expr"].count(")"), target["expr"])
            named |= found
    for variable in dashboard["templating"]["list"]:
        named |= set(re.findall(r"gpupool_\w+", variable["query"]))
    case.equal(named - there, set(), "metrics of the dashboard that a pool does not have")


def test_alerts_and_dashboard_name_metrics_that_a_pool_has(case):
    pool = case.pool(servers=1, cards=1)
    rules, token = case.folder / "rules", case.folder / "token"
    token.write_text("of another pool")
    rules.write_text(f"[pool away]\nscheduler = 127.0.0.1:1\ntoken-file = {token}\n"
                     f"key-file = {next(case.folder.rglob('ticket-key.pub'))}\n")
    pool.restart(pool.pid("gpupool-scheduler"), "--rules", rules)
    text, scheduler_port = "", None
    for program in ("gpupool-scheduler", "gpupool-server"):
        port = case.free_port()
        pool.restart(pool.pid(program), "--metrics-listen", f"127.0.0.1:{port}")
        case.wait_for(lambda: len(pool.status()["servers"]) == 1, "the server is there")
        case.wait_for(lambda port=port: "gpupool_server_slices" in scrape(case, port)
                      or "gpupool_server_registered 1" in scrape(case, port), "its metrics")
        text += scrape(case, port)
        scheduler_port = scheduler_port or port
    session = pool.session(core=30, memory="64MiB")  # a tenant, for the tenants' metrics
    text += scrape(case, scheduler_port) + scrape(case, scheduler_port, "metrics/cards")
    session.close()
    there = set(re.findall(r"^(gpupool_\w+)", text, re.M))
    rules = "".join(re.findall(r"(?m)^ +expr: (.*)$", ALERTS.read_text("utf-8")))
    named = set(re.findall(r"gpupool_\w+", rules))
    case.check(len(named) >= 8, f"metrics of the alerts: {named}")
    case.equal(named - there, set(), "metrics that a pool does not have")
    check_dashboard(case, there)


def test_alerts_fire_when_they_should(case):
    promtool = case.need_tool("promtool", "test-alerts")
    case.run([promtool, "check", "rules", str(ALERTS)])
    shutil.copy(ALERTS, case.folder / "alerts.yaml")
    shutil.copy(case.data / "alerts.test.yaml", case.folder / "test.yaml")
    case.run([promtool, "test", "rules", str(case.folder / "test.yaml")])
