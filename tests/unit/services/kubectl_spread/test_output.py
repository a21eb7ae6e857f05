# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of kubectl spread: colours only on a terminal, and each format."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.output import PIPED_COLUMNS, write_result

from tests.unit.report.results import BERLIN, Json, check, data_of_page, even, nodes, piled, workload
from tools.paths import COLLECTIONS

SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def result(count: int = 4) -> Json:
    node_list = nodes(count)
    web = workload("web", piled(node_list, 3), "collapsed", restart_helps=True)
    return check([web, workload("fine", even(node_list, 3), "healthy")], node_list, cluster=BERLIN)


def shown(form: str, output: io.StringIO | None = None, *, data: Json | None = None, **environment: str) -> str:
    output = io.StringIO() if output is None else output
    write_result(data or result(), form, environment=environment, output=output)
    return output.getvalue()


def test_a_map_that_is_piped_has_no_colours() -> None:
    text = shown("")
    assert "\x1b" not in text
    assert "deploy shop/web          3         ·         ·         ·  collapsed, a restart helps" in text


def test_a_map_on_a_terminal_has_colours_and_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(PIPED_COLUMNS))
    text = shown("", Terminal(), TERM="xterm")
    assert "\x1b[31mcollapsed, a restart helps\x1b[0m" in text and "\x1b[32mhealthy\x1b[0m" in text
    assert len(SEQUENCE.findall(text)) % 2 == 0, "each colour ends"
    lines = [line.rstrip() for line in SEQUENCE.sub("", text).splitlines()]
    assert [line for line in lines if "shop/" in line] == [line for line in shown("").splitlines() if "shop/" in line]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off(environment: dict[str, str]) -> None:
    assert "\x1b" not in shown("", Terminal(), **environment)


def test_an_escape_sequence_in_a_name_does_not_reach_the_terminal() -> None:
    data = result()
    data["workloads"][0].update(name="web\x1b[5m", message="a\x1b]0;title\x07", verdict="\x1b[7m")
    text = SEQUENCE.sub("", re.sub(r"\x1b\[(0|1|2|31|32|33)m", "", shown("", Terminal(), data=data)))
    assert "\x1b" not in text and "\x07" not in text and "web?[5m" in text


def test_wide_lists_all_workloads_in_all_nodes() -> None:
    node_list = nodes(200)
    entries = [workload(f"w{number:03d}", even(node_list, 200), "healthy") for number in range(100)]
    data = check(entries, node_list)
    assert "worker-150" not in shown("", data=data) and "40 more are not listed" in shown("", data=data)
    wide = shown("wide", data=data)
    assert all(f" worker-{number}" in wide for number in range(1, 201)) and wide.count("deploy shop/w") == 100


def test_json_and_yaml_have_the_result_of_the_module() -> None:
    assert json.loads(shown("json")) == result()
    assert yaml.safe_load(shown("yaml")) == result()


def test_html_is_the_page_of_the_check() -> None:
    data = data_of_page(shown("html"))
    assert (data["cluster"], data["checks_only"], len(data["workloads"])) == (BERLIN, True, 2)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", data["time"])


def test_markdown_is_the_summary_of_the_check() -> None:
    text = shown("markdown")
    assert text.startswith(
        "### Spread of workloads: berlin (context admin, https://10.0.0.10:6443)\n\n2 workloads in 1 namespace, 4 nodes. Collapsed 1, "
    )
    assert "| Deployment shop/web | 3 | 3 on worker-1 | collapsed, a restart helps |" in text


WRITER = """
import sys
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.output import write_result
from tests.unit.services.kubectl_spread.test_output import result
write_result(result(400), "json", environment={}, output=sys.stdout)
print("ended", file=sys.stderr)
"""


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_a_reader_that_ends_early_is_no_error(locale: str) -> None:
    environment = {**os.environ, "LC_ALL": locale, "PYTHONPATH": f"{COLLECTIONS}:{Path.cwd()}"}
    command = f"{sys.executable} -c '{WRITER}' | head -c 10"
    answer = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert answer.stdout.startswith("{") and answer.stderr == "ended\n"


def test_a_sign_that_the_encoding_lacks_is_replaced() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding="ascii")
    write_result(result(), "", environment={}, output=output)
    assert b"collapsed, a restart helps" in raw.getvalue()
