# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agents that learn get their saved state, and an API server that does not answer holds nothing up."""

from __future__ import annotations

import io
import socket
import time
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.learned.learned_state import LearnedState, learning_agents
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import KubernetesSettings

from tests.unit.services.extender.extender_objects import ScoreAgent, profile

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: c, context: {{cluster: c}}}}]
current-context: c
"""


class Started:
    """The state of a profile whose agents are these, with the log as text."""

    def __init__(self, kubernetes: KubernetesSettings | None, *names: str) -> None:
        self.text, self.errors = io.StringIO(), list[str]()
        log = set_up_log("extender", form="json", level="info", stream=self.text)
        profiles = {"quiet": profile(ConfiguredAgent(ScoreAgent()), *(build_agent(name) for name in names))}
        self.state = LearnedState(kubernetes, profiles, log, self.errors.append)
        self.state.start()


@pytest.fixture
def nobody_listens(tmp_path: Path) -> KubernetesSettings:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.format(port=port))
    return KubernetesSettings(str(file))


def test_only_agents_that_learn_have_a_state() -> None:
    one = profile(ConfiguredAgent(ScoreAgent()), build_agent("reward"))
    assert list(learning_agents({"quiet": one})) == ["quiet.reward"]


def test_without_an_agent_that_learns_nothing_is_connected(nobody_listens: KubernetesSettings) -> None:
    started = Started(nobody_listens)
    started.state.stop()
    assert (started.text.getvalue(), started.errors) == ("", [])


def test_without_a_connection_the_loss_is_said_once() -> None:
    started = Started(None, "reward")
    assert "the agents forget at the end what they learn" in started.text.getvalue()
    started.state.stop()


def test_an_api_server_that_is_down_does_not_hold_up_the_start_and_the_end(nobody_listens: KubernetesSettings) -> None:
    began_at_s = time.monotonic()
    started = Started(nobody_listens, "reward")
    assert time.monotonic() - began_at_s < 2
    while not started.errors and time.monotonic() - began_at_s < 20:
        time.sleep(0.05)
    assert started.errors
    started.state.replace_agents({"quiet": profile(build_agent("reward"))})
    started.state.stop()
