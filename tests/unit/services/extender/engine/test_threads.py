# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests are answered correctly while another thread refreshes the scores, replaces nodes and reloads the profiles."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent

from tests.unit.services.extender.extender_objects import DemandAgent, ScoreAgent, names_body, node, profile, scores_in, view
from tests.unit.services.extender.http.client import Client

NAMES = [f"node-{number}" for number in range(20)]
ROUNDS = 60


@pytest.fixture(autouse=True)
def many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Template(DemandAgent):
    name = "template"


def test_answers_are_complete_while_the_scores_change() -> None:
    profiles = (profile(ConfiguredAgent(ScoreAgent(), 1, True), Template()), profile(ScoreAgent(), name="static"))
    client = Client(*profiles)
    engine, chance = client.engine, random.Random(5)
    engine.on_view(view(dict.fromkeys(NAMES, 5.0)))
    failed: list[BaseException] = []

    def change() -> None:
        try:
            for version in range(2, ROUNDS):
                # Every third view has other nodes, and every tenth follows a reload.
                engine.on_view(view({name: chance.uniform(3, 9) for name in NAMES[: 20 if version % 3 else 10]}, version=version))
                for _ in range(5):
                    engine.on_node(node(chance.choice(NAMES), chance.uniform(3, 9)))
                if version % 10 == 0:
                    engine.reconfigure({one.name: one for one in profiles})
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    asked = 0
    while thread.is_alive() or asked < 20:
        body = names_body(NAMES, uid=f"u{asked}", cpu=str(asked % 3), scheduler="static" if asked % 4 == 0 else "quiet")
        for path in ("/scheduler/prioritize", "/scheduler/priorities/foo"):
            answer = client.post(path, body)
            assert answer.status == 200, answer.text
            found = scores_in(answer.body)
            assert list(found) == NAMES and all(0 <= score <= 10 for score in found.values())
        assert client.post("/scheduler/filter", body).json["NodeNames"] == NAMES
        if asked % 20 == 0:
            assert client.get("/status").status == 200
        asked += 1
    thread.join()
    assert failed == []
