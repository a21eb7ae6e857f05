# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file of Prometheus."""

from __future__ import annotations

from lab.prometheus_config import Target, configuration


def test_each_target_has_its_own_path_and_labels() -> None:
    targets = [Target("127.0.0.1:9100"), Target("127.0.0.1:9000", "/nodes/b/metrics", {"instance": "b"})]
    (job,) = configuration(targets, scrape_interval="200ms")["scrape_configs"]
    assert job["static_configs"] == [
        {"targets": ["127.0.0.1:9100"], "labels": {"__metrics_path__": "/metrics"}},
        {"targets": ["127.0.0.1:9000"], "labels": {"instance": "b", "__metrics_path__": "/nodes/b/metrics"}},
    ]
