# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The states of learning agents survive a restart, and only the holder of the Lease writes them."""

from __future__ import annotations

import base64
import random
import re
import typing as t
import zlib

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ForbiddenError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learned_state import (
    MAX_STATE_BYTES,
    LearnedState,
    StateTextError,
    decode_state,
    encode_state,
    state_key,
)
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learning import LearningAgent
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import KubernetesSettings
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.agents.views import reward_agent
from tests.unit.services.extender.learned.state_server import Server, learn, wait_for

KEY = "profile.reward"


class Notes:
    """A log that keeps its warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, message: str, **_fields: t.Any) -> None:
        self.warnings.append(message)


class On(t.NamedTuple):
    state: LearnedState
    agent: LearningAgent
    notes: Notes
    errors: list[str]

    @property
    def is_writer(self) -> bool:
        return self.state._cluster is not None and self.state._cluster[1].held


def program(server: Server, **agents: LearningAgent) -> On:
    """A process with one learning agent, or with these."""
    notes: t.Any = Notes()
    errors: list[str] = []
    api: t.Any = server
    own = agents or {KEY: reward_agent()}
    state = LearnedState(KubernetesSettings(), own, notes, lambda: errors.append("error"), connect=lambda _kubernetes: api)
    return On(state, next(iter(own.values())), notes, errors)


@pytest.fixture
def server() -> Server:
    return Server()


def test_learned_rewards_survive_a_restart(server: Server) -> None:
    first = program(server)
    assert first.state.save()
    learn(first.agent, times=3)
    first.state.start()
    first.state.stop()
    assert server.holder is None, "the next process need not wait for the end of the Lease"
    second = program(server)
    assert second.state.save() and second.agent.save() == first.agent.save()
    assert not first.errors and not second.errors


def test_only_the_holder_of_the_lease_writes(server: Server) -> None:
    leader, follower = program(server), program(server)
    assert leader.state.save() and follower.state.save()
    learn(leader.agent)
    assert leader.state.save() and leader.is_writer
    learn(follower.agent, "other")
    before = server.data
    assert follower.state.save() and not follower.is_writer and server.data == before
    leader.state.stop()
    assert follower.state.save() and server.data != before
    follower.state.stop()


def test_an_unchanged_state_is_not_written_again(server: Server) -> None:
    on = program(server)
    learn(on.agent)
    assert on.state.save() and on.state.save()
    assert len(server.patches) == 1
    on.state.stop()


def test_a_conflict_is_repeated_and_the_keys_of_others_stay(server: Server) -> None:
    on = program(server)
    learn(on.agent)
    server.before_patch = [lambda: server.change_data(foreign="x")]
    assert on.state.save()
    assert server.data["foreign"] == "x" and decode_state(server.data[state_key(KEY)]) == on.agent.save()
    on.state.stop()


def test_a_forbidden_write_is_logged_once_counted_and_tried_again(server: Server) -> None:
    on = program(server)
    learn(on.agent)
    server.refuse = lambda verb, plural: ForbiddenError("denied", status=403) if verb != "get" else None
    assert not on.state.save() and not on.state.save()
    assert [one.endswith(" not saved: denied") for one in on.notes.warnings] == [True] and len(on.errors) == 2
    server.refuse = lambda _verb, _plural: None
    assert on.state.save() and server.data
    on.state.stop()


def test_nothing_is_written_before_the_saved_state_was_loaded(server: Server) -> None:
    first = program(server)
    learn(first.agent, times=5)
    assert first.state.save()
    first.state.stop()
    saved = server.data
    second = program(server)
    server.refuse = lambda _verb, _plural: UnreachableError("no answer")
    assert not second.state.save()
    second.state.stop()
    assert server.data == saved and [one.endswith(" not loaded: no answer") for one in second.notes.warnings] == [True]
    server.refuse = lambda _verb, _plural: None
    assert second.state.save() and second.agent.save() == first.agent.save() and server.data == saved
    second.state.stop()


def test_a_program_that_loses_the_lease_during_a_conflict_does_not_write(server: Server) -> None:
    on = program(server)
    learn(on.agent)

    def lose() -> None:
        assert on.state._cluster is not None
        on.state._cluster[1].abandon()
        server.change_data(foreign="x")

    server.before_patch = [lose]
    assert on.state.save()
    assert server.data == {"foreign": "x"}
    on.state.stop()


@pytest.mark.parametrize("text", ["", "v1:", "v1:!!!", "v2:AAAA", "v1:AAAA", encode_state(b"no JSON"), encode_state(b'{"version":1}')[:-8]])
def test_a_damaged_state_is_reported_and_replaced(server: Server, text: str) -> None:
    first = program(server)
    assert first.state.save()
    first.state.stop()
    server.change_data(**{state_key(KEY): text, "other": encode_state(b"x")})
    on = program(server)
    assert not on.state.save()
    assert len(on.notes.warnings) == 1 and on.notes.warnings[0].startswith(f"the saved state of agent {KEY} is not used: ")
    learn(on.agent)
    assert on.state.save() and decode_state(server.data[state_key(KEY)]) == on.agent.save()
    assert decode_state(server.data["other"]) == b"x"
    on.state.stop()


class Broken(LearningAgent):
    """An agent of another package with errors."""

    def __init__(self, state: bytes | None = None) -> None:
        super().__init__(None)
        self.state = state

    def save(self) -> bytes:
        if self.state is None:
            raise KeyError("broken")
        return self.state

    def load(self, state: bytes, now_s: float) -> None:
        raise KeyError("broken")


@pytest.mark.parametrize(("size", "dropped"), [(1000, False), (MAX_STATE_BYTES, True)])
def test_keys_of_removed_profiles_are_dropped_beyond_the_limit(server: Server, size: int, dropped: bool) -> None:
    on = program(server)
    learn(on.agent)
    assert on.state.save()
    server.change_data(**{"removed.reward": "x" * size})
    learn(on.agent)
    assert on.state.save()
    assert set(server.data) == ({KEY} if dropped else {KEY, "removed.reward"})
    on.state.stop()


def test_a_broken_agent_does_not_prevent_others_from_being_saved(server: Server) -> None:
    on = program(server, good=reward_agent(), broken=Broken())
    learn(on.agent)
    assert not on.state.save()
    assert on.notes.warnings == ["the state of agent broken is not saved: KeyError: 'broken'"]
    assert set(server.data) == {"good"}
    on.state.stop()


def test_states_beyond_the_limit_are_not_saved(server: Server) -> None:
    incompressible = random.Random(1).randbytes(MAX_STATE_BYTES - 1)
    on = program(server, long=Broken(b"x" * (MAX_STATE_BYTES + 1)), good=reward_agent(), noise=Broken(incompressible))
    learn(on.state._agents["good"])
    assert not on.state.save()
    assert "good" in server.data and "long" not in server.data
    assert sum(map(len, server.data.values())) <= MAX_STATE_BYTES
    assert on.notes.warnings[0] == "the state of agent long is not saved: the state has 524289 bytes, and the maximum is 524288"
    on.state.stop()


def test_a_reload_of_the_configuration_keeps_what_was_learned(server: Server) -> None:
    on = program(server)
    assert on.state.save()
    learn(on.agent)
    new, second = reward_agent(rate=0.5), reward_agent()
    state = on.state.replaced_by(KubernetesSettings(), {KEY: new, "second": second})
    wait_for(lambda: "second" in server.data)
    state.stop()
    assert new.save() == on.agent.save() != second.save()
    assert set(server.data) == {KEY, "second"}


def test_a_reload_with_the_same_agents_and_the_same_cluster_changes_nothing(server: Server) -> None:
    on = program(server)
    assert on.state.replaced_by(KubernetesSettings(), {KEY: on.agent}) is on.state
    on.state.stop()


@given(st.binary(max_size=2000))
@settings(max_examples=50, deadline=None)
def test_any_state_can_be_encoded(state: bytes) -> None:
    text = encode_state(state)
    assert text.isascii() and decode_state(text) == state


@given(st.text(max_size=50))
@settings(max_examples=50, deadline=None)
def test_any_text_is_a_state_or_an_error(text: str) -> None:
    with pytest.raises(StateTextError):
        decode_state(text)


def test_a_text_that_unpacks_to_more_than_the_limit_is_refused() -> None:
    text = "v1:" + base64.b64encode(zlib.compress(b"\0" * (MAX_STATE_BYTES + 1))).decode()
    with pytest.raises(StateTextError, match="too long"):
        decode_state(text)


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_keys_are_valid_and_differ(one: str, other: str) -> None:
    assert re.fullmatch(r"[-._a-zA-Z0-9]+", state_key(one))
    assert (state_key(one) == state_key(other)) == (one == other)


def test_an_agent_that_comes_back_has_what_was_saved(server: Server) -> None:
    on = program(server)
    learn(on.agent)
    assert on.state.save()
    back = reward_agent()
    state = on.state.replaced_by(KubernetesSettings(), {}).replaced_by(KubernetesSettings(), {KEY: back})
    wait_for(lambda: state._is_loaded)
    state.stop()
    assert back.save() == on.agent.save()
