# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agents that learn get their saved state, also after a change of the cluster. An API server that does not answer holds nothing up."""

from __future__ import annotations

import io
import socket
import threading
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import UnreachableError
from ansible_collections.onprem.kube_scheduling.services.common.log import set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original import learned_state
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learned_state import LearnedState, decode_state, state_key
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learning import LearningAgent
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.assembly import learning_agents
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import KubernetesSettings

from tests.unit.services.extender.agents.views import reward_agent
from tests.unit.services.extender.extender_objects import ScoreAgent, profile
from tests.unit.services.extender.learned.state_server import WAIT_S, Server, learn, wait_for

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: c, context: {{cluster: c}}}}]
current-context: c
"""


class Started:
    """The state of a profile with these agents, and the log as text."""

    def __init__(self, kubernetes: KubernetesSettings | None, *agents: str | Agent) -> None:
        self.text, self.errors = io.StringIO(), list[str]()
        log = set_up_log("extender", form="json", level="info", stream=self.text)
        self.kubernetes = kubernetes
        self.state = LearnedState(kubernetes, learning(*agents), log, lambda: self.errors.append("error"))
        self.state.start()

    def replace(self, kubernetes: KubernetesSettings | None, *agents: Agent) -> None:
        """Read FILE again, with other settings."""
        self.kubernetes = kubernetes
        self.state = self.state.replaced_by(kubernetes, learning(*agents))


def learning(*agents: str | Agent) -> dict[str, LearningAgent]:
    """The agents that learn, with their keys."""
    found = [build_agent(one) if isinstance(one, str) else one for one in agents]
    return learning_agents({"quiet": profile(ConfiguredAgent(ScoreAgent()), *found)})


@pytest.fixture
def nobody_listens(tmp_path: Path) -> KubernetesSettings:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.format(port=port))
    return KubernetesSettings(str(file))


def test_only_agents_that_learn_have_a_state() -> None:
    one = profile(ConfiguredAgent(ScoreAgent()), reward_agent())
    assert list(learning_agents({"quiet": one})) == ["quiet.reward"]


def test_without_an_agent_that_learns_nothing_is_connected(nobody_listens: KubernetesSettings) -> None:
    started = Started(nobody_listens)
    started.state.stop()
    assert (started.text.getvalue(), started.errors) == ("", [])


def test_without_a_connection_the_loss_is_said_once() -> None:
    started = Started(None, "reward")
    assert "the agents forget " in started.text.getvalue()
    started.state.stop()


def test_an_api_server_that_is_down_is_reported_and_does_not_hold_up_the_end(nobody_listens: KubernetesSettings) -> None:
    started = Started(nobody_listens, "reward")
    wait_for(lambda: bool(started.errors))
    started.replace(nobody_listens, reward_agent())
    started.state.stop()


# --- other settings while the program runs ---

KEY = "quiet.reward"
OLD, NEW = KubernetesSettings(context="old"), KubernetesSettings(context="new")


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> dict[str | None, Server]:
    """The API servers by the context."""
    found: dict[str | None, Server] = {"old": Server(), "new": Server()}
    monkeypatch.setattr(learned_state, "open_kube_api", lambda kubernetes: found[kubernetes.context])
    return found


def test_an_api_server_that_does_not_answer_does_not_hold_up_the_start(servers: dict[str | None, Server]) -> None:
    released, over = threading.Event(), threading.Event()

    def hang(_verb: str, _plural: str) -> None:
        released.wait(WAIT_S)
        over.set()

    servers["old"].refuse = hang
    started = Started(OLD, "reward")
    assert not over.is_set(), "the start has waited for the answer"
    released.set()
    started.state.stop()


def wait_until_connected(started: Started) -> None:
    wait_for(lambda: started.state._is_loaded)


def saved(server: Server) -> bytes | None:
    text = server.data.get(state_key(KEY))
    return decode_state(text) if text is not None else None


def test_a_cluster_that_is_added_while_the_program_runs_keeps_what_was_learned(servers: dict[str | None, Server]) -> None:
    of = reward_agent()
    started = Started(None, of)
    learn(of)
    before = started.text.getvalue()
    started.replace(NEW, of)
    assert started.text.getvalue() == before, "nothing is forgotten any more"
    wait_until_connected(started)
    started.state.stop()
    assert saved(servers["new"]) == of.save() and servers["new"].holder is None and started.errors == []


@pytest.mark.parametrize("is_same_agent", [True, False])
def test_another_cluster_gets_what_was_learned_and_the_one_before_is_left_complete(
    servers: dict[str | None, Server], is_same_agent: bool
) -> None:
    first, third = reward_agent(), reward_agent()
    other = Started(NEW, third)
    wait_until_connected(other)
    learn(third, "other")
    other.state.stop()
    started = Started(OLD, first)
    wait_until_connected(started)
    learn(first)
    before = first.save()
    second = first if is_same_agent else reward_agent(rate=0.5)
    started.replace(NEW, second)
    wait_until_connected(started)
    assert saved(servers["old"]) == before and servers["old"].holder is None, "the connection before has ended"
    learn(second, "later")
    started.state.stop()
    assert saved(servers["old"]) == before and saved(servers["new"]) == second.save()
    assert all(node in second.save() for node in (b'"n"', b'"later"', b'"other"'))
    assert (servers["old"].holder, servers["new"].holder, started.errors) == (None, None, [])


def test_a_cluster_that_is_removed_gets_the_last_state_and_the_loss_is_said(servers: dict[str | None, Server]) -> None:
    of = reward_agent()
    started = Started(OLD, of)
    wait_until_connected(started)
    learn(of)
    started.replace(None, of)
    assert "because sources.kubernetes is not configured" in started.text.getvalue()
    started.state.stop()
    assert saved(servers["old"]) == of.save() and servers["old"].holder is None


def test_an_old_cluster_that_does_not_answer_holds_up_no_change_and_the_end_waits_for_it(servers: dict[str | None, Server]) -> None:
    of, reached, released = reward_agent(), threading.Event(), threading.Event()

    def hang(verb: str, plural: str) -> Exception | None:
        reached.set()
        released.wait(WAIT_S)
        return None

    started = Started(OLD, of)
    wait_until_connected(started)
    servers["old"].refuse = hang
    learn(of)
    started.replace(NEW, of)
    assert reached.wait(WAIT_S)
    started.replace(OLD, of)
    started.replace(NEW, of)
    assert not servers["new"].kept, "the state before must be saved first"
    threading.Timer(0.1, released.set).start()
    started.state.stop()
    assert saved(servers["old"]) == of.save() and servers["old"].holder is None and servers["new"].holder is None


def test_a_cluster_that_is_replaced_before_it_answers_is_not_used(servers: dict[str | None, Server]) -> None:
    servers["old"].refuse = lambda _verb, _plural: UnreachableError("no answer")
    of, second = reward_agent(), reward_agent(rate=0.5)
    started = Started(OLD, of)
    learn(of)
    started.replace(NEW, second)
    assert second.save() == of.save()
    wait_until_connected(started)
    started.state.stop()
    assert saved(servers["new"]) == second.save() and not servers["old"].kept


def test_nothing_is_connected_after_the_end(servers: dict[str | None, Server]) -> None:
    started = Started(OLD, "reward")
    started.state.stop()
    started.replace(NEW, reward_agent())
    assert not servers["new"].kept
