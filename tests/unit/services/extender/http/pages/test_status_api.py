# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes, metrics and the status page."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.cluster_identity import ClusterIdentity
from ansible_collections.onprem.kube_scheduling.services.extender.http.app import MAX_WAITING
from ansible_collections.onprem.kube_scheduling.services.extender.reload_faults import FILE_FAULT

from tests.unit.services.extender.extender_objects import (
    PROFILE,
    ScoreAgent,
    names_body,
    profile,
    view,
)
from tests.unit.services.extender.http.client import FILTER, PRIORITIZE, VALUES, Client


def test_liveness_and_readiness(client: Client) -> None:
    assert client.get("/healthz").text == "ok\n"
    assert client.get("/readyz").status == 503
    client.health.set_unready(())
    assert client.get("/readyz").text == "ok\n"
    client.engine.on_view(view(dict.fromkeys(VALUES), version=2))
    answer = client.get("/readyz")
    assert answer.status == 200 and "known for the profiles quiet" in answer.text


def test_a_broken_file_is_on_the_pages_until_it_is_repaired(client: Client) -> None:
    client.health.set_unready(())
    client.post(PRIORITIZE, names_body(["a"]))
    pages = ("/status", "/explain?pod=app/web")
    client.faults.note(FILE_FAULT, ["file a.yaml, line 3, listen: 5 is <no> address", "log_level: 'loud' is not one of debug"])
    client.faults.note(FILE_FAULT, ["file a.yaml, line 3, listen: 5 is <no> address"])
    since = datetime.fromtimestamp(client.faults.current[0].since_s, UTC)
    for path in pages:
        text = client.get(path, accept="text/html").text
        assert text.index('role="alert"') < text.index("<table>"), "it is above everything else"
        assert f"<strong>{FILE_FAULT}.</strong>" in text
        assert f"Since {since:%Y-%m-%d %H:%M:%S} UTC, for 0 seconds." in text
        assert "<li>file a.yaml, line 3, listen: 5 is &lt;no&gt; address</li></ul>" in text
    assert client.get("/status").json["faults"] == [
        {
            "text": FILE_FAULT,
            "since": since.isoformat(timespec="seconds"),
            "errors": ["file a.yaml, line 3, listen: 5 is <no> address"],
        }
    ]
    ready = client.get("/readyz")
    assert ready.status == 200 and ready.text.startswith(f"ok, but {FILE_FAULT} (since {since:%Y-%m-%d %H:%M:%S} UTC")
    client.faults.remove(FILE_FAULT)
    assert not [path for path in pages if "alert" in client.get(path, accept="text/html").text.partition("</style>")[2]]
    assert client.get("/status").json["faults"] == [] and client.get("/readyz").text == "ok\n"


def test_the_version(client: Client) -> None:
    assert client.get("/version").json == {"version": "1.2.3"}


def test_metrics_count_requests_by_profile_and_verb(client: Client) -> None:
    client.post(PRIORITIZE, names_body(["a"]))
    client.post(PRIORITIZE, names_body(["a"], scheduler="foreign"))
    client.post(FILTER, b"{")
    text = client.get("/metrics").text
    assert 'kube_scheduling_extender_requests_total{profile="quiet",verb="prioritize"} 1.0' in text
    assert 'kube_scheduling_extender_requests_total{profile="",verb="prioritize"} 1.0' in text
    assert 'kube_scheduling_extender_refused_requests_total{code="400"} 1.0' in text
    assert "foreign" not in text
    assert "openmetrics" in client.get("/metrics", accept="application/openmetrics-text;version=1.0.0").headers["content-type"]
    assert client.get("/metrics", accept="text/plain;version=x").status == 200


def test_neutral_answers_are_counted() -> None:
    client = Client(profile(ScoreAgent()))
    client.post(PRIORITIZE, names_body(["a", "b"]))
    assert client.metrics.registry.get_sample_value("kube_scheduling_extender_neutral_answers_total", {"profile": PROFILE}) == 1


def test_the_status_as_json(client: Client) -> None:
    found = client.get("/status").json
    assert [row["node"] for row in found["profiles"][0]["nodes"]] == ["c", "b", "a"]
    assert found["errors"] == {} and found["unmapped_series"] == 0


def test_the_status_and_the_reasons_for_scores_name_the_cluster(client: Client) -> None:
    berlin = ClusterIdentity("berlin", "admin", "https://10.0.0.10:6443")
    client.engine.on_view(view({"a": 5.0}, version=3, cluster=berlin))
    assert client.get("/status").json["cluster"] == berlin.fields()
    assert f"<h1>Scheduler extender: {berlin.line}</h1>" in client.get("/status", accept="text/html").text
    client.post(PRIORITIZE, names_body(["a"]))
    assert client.get("/explain?pod=app/web").json["cluster"] == berlin.fields()
    assert berlin.line in client.get("/explain?pod=app/web", accept="text/html").text


def test_pages_escape_every_text_and_have_no_script(client: Client) -> None:
    name = "<script>alert(1)</script>"
    client.engine.on_view(view({name: 5.0, "b": None}, version=3, errors={"prometheus": name}))
    client.post(PRIORITIZE, names_body(["a"], name=name))
    for target in ("/status", "/", f"/explain?pod=app/{name}"):
        page = client.get(target, accept="text/html,*/*")
        assert page.status == 200 and "<script" not in page.text and "&lt;script&gt;" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert 'http-equiv="refresh"' in client.get("/status", accept="text/html").text


def test_pages_that_wait_are_limited_and_do_not_delay_a_scrape(client: Client) -> None:
    release, finish = threading.Event(), client.app._status_api._handlers["/status"]
    client.app._status_api._handlers["/status"] = lambda query, headers: finish(query, headers) if release.wait(10) else None  # type: ignore[return-value]

    async def ask(path: str) -> int:
        return (await client.ask("GET", path)).status

    async def all_of_them() -> tuple[list[int], int, int]:
        pages = [asyncio.ensure_future(ask("/status")) for _ in range(MAX_WAITING + 1)]
        await asyncio.sleep(0)
        one_more, scrape = await ask("/status"), await ask("/metrics")
        release.set()
        return await asyncio.gather(*pages), one_more, scrape

    assert asyncio.run(all_of_them()) == ([200] * (MAX_WAITING + 1), 503, 200)
    assert client.get("/status").status == 200


def test_the_address_for_people_does_not_answer_the_scheduler() -> None:
    client = Client(profile(ScoreAgent()), scheduler=False)
    assert client.post(PRIORITIZE, names_body(["a"])).status == 405
    assert client.get("/healthz").status == 200
