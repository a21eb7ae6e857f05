# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decoder of requests keeps its rules for bodies that a coverage-guided fuzzer makes from real ones.

WIRE_INPUTS sets how many (20,000; 1,000,000 under SOAK=1), WIRE_SEED the seed: the same seed gives the same bodies.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import time
import typing as t
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.services.extender.http import wire
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Victims
from ansible_collections.onprem.kube_scheduling.services.extender.recording.lines import RequestLine, decode_line

from tests.not_run import not_run
from tests.unit.services.extender.extender_objects import body, names_body, pod
from tests.unit.services.extender.http.messages.test_preemption_wire import META, WHOLE
from tests.unit.services.extender.http.messages.test_wire import NODE
from tests.unit.services.extender.http.messages.wire_mutations import changed_body
from tests.unit.services.extender.http.messages.wire_rules import check_body
from tools.paths import COLLECTIONS, ROOT

SOAK = os.environ.get("SOAK") == "1"
INPUTS = int(os.environ.get("WIRE_INPUTS", "1000000" if SOAK else "20000"))
SEED = int(os.environ.get("WIRE_SEED", str(time.time_ns() % 10**9) if SOAK else "1"))
NODES_REQUEST = wire.NodesRequest
FUZZER = "tests.unit.services.extender.http.messages.wire_fuzzer"

RECORDED = (Path(__file__).parent / "scheduler_requests.jsonl").read_bytes().splitlines()
"""Requests of kube-scheduler 1.36 on the lab, in the format of the recorder."""

SEEDS = (
    *(encode_json(line.body) for line in map(decode_line, RECORDED) if isinstance(line, RequestLine)),
    names_body(["a", "b"]),
    body(Pod=pod(cpu="250m"), Nodes={"metadata": {}, "items": [NODE]}, NodeNames=None),
    body(Pod=pod(), NodeNameToVictims={}, NodeNameToMetaVictims=META),
    body(Pod=pod(), NodeNameToVictims=WHOLE, NodeNameToMetaVictims={}),
    body(pod=pod(), nodenametometavictims=json.loads(json.dumps(META).lower())),
    body(pod=pod(), nodenames=["a"]),
)

COMPARISONS = {
    *("nodes by name", "whole nodes", "nodes as the standard library reads them", "nodes refused"),
    *("victims", "victims as the standard library reads them", "victims refused"),
}
LEAST_SHARE = 0.01
"""Each kind of comparison is made for at least this share of the bodies."""


def test_bodies_of_the_fuzzer(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        not_run("atheris has no wheel for this machine, see requirements-dev.txt")
    (tmp_path / "seeds").mkdir()
    for number, one in enumerate(SEEDS):
        (tmp_path / "seeds" / str(number)).write_bytes(one)
    command = [sys.executable, "-m", FUZZER, str(tmp_path), str(INPUTS), str(SEED)]
    environment = {"PYTHONPATH": os.pathsep.join((str(COLLECTIONS), str(ROOT))), "PYTHONHASHSEED": "0", "PATH": ""}
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, errors="replace")
    assert answer.returncode == 0, f"WIRE_SEED={SEED} WIRE_INPUTS={INPUTS}\n{answer.stderr[-10000:]}"
    counts = Counter(json.loads((tmp_path / "counts.json").read_text()))
    assert counts["inputs"] == INPUTS
    assert {name for name in COMPARISONS if counts[name] >= LEAST_SHARE * INPUTS} == COMPARISONS, counts


# --- the rules find defects ---------------------------------------------------------------------------------------------


def bodies() -> list[bytes]:
    """Bodies of the mutations alone, which need no atheris."""
    chance = random.Random(1)
    made = (changed_body(one, chance.choice(SEEDS), chance) for one in SEEDS for _ in range(30))
    return [*SEEDS, *(one for one in made if one is not None)]


def last_name_is_lost(pod: t.Any, names: list[str], nodes: t.Any) -> wire.NodesRequest:
    return NODES_REQUEST(pod, names[:-1], nodes)


def violations_are_lost(victims: t.Any) -> t.Any:
    return Victims([pod.uid for pod in victims.pods or ()] if victims else (), 0)


@pytest.mark.parametrize(
    ("module", "name", "defect"),
    [
        (wire, "NodesRequest", last_name_is_lost),
        (wire, "_victims", violations_are_lost),
        (wire, "_reason", lambda error: ""[0]),
    ],
)
def test_a_defect_of_the_decoder_breaks_a_rule(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, defect: t.Any) -> None:
    for one in bodies():
        check_body(one)
    monkeypatch.setattr(module, name, defect)
    with pytest.raises((AssertionError, IndexError)):
        for one in bodies():
            check_body(one)
