# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line for each message, for programs or for people."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import Log, set_up_log

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(form: str, level: str, write: object) -> list[str]:
    stream = io.StringIO()
    assert callable(write)
    write(set_up_log("rescuer", form=form, level=level, stream=stream))
    return stream.getvalue().splitlines()


def test_a_json_line() -> None:
    (line,) = lines("json", "info", lambda log: log.info("pod evicted", pod="app/web-1", victims=["a", "b"], node=None, grace_period=5))
    found = json.loads(line)
    assert re.fullmatch(TIME, found.pop("time"))
    assert found == {"level": "info", "message": "pod evicted", "pod": "app/web-1", "victims": ["a", "b"], "grace_period": 5}


def test_line_ends_stay_within_a_json_line() -> None:
    (line,) = lines("json", "info", lambda log: log.warning("one\ntwo", text="é\n"))
    assert json.loads(line)["message"] == "one\ntwo"


def test_a_text_line() -> None:
    (line,) = lines(
        "text", "info", lambda log: log.warning("pod evicted", pod="app/web-1", reason="no capacity", victims=["a", "b"], node="")
    )
    assert re.fullmatch(TIME + r' WARNING pod evicted pod=app/web-1 reason="no capacity" victims=a,b node=""', line)


def test_a_cause_brings_its_traceback() -> None:
    def write(log: Log) -> None:
        try:
            raise ValueError("broken")
        except ValueError as error:
            log.error("ended", cause=error)

    (line,) = lines("json", "error", write)
    assert "Traceback" in json.loads(line)["traceback"] and "ValueError: broken" in json.loads(line)["traceback"]
    assert lines("text", "error", write)[-1] == "ValueError: broken"


def test_lines_below_the_level_are_left_out() -> None:
    def write(log: Log) -> None:
        log.info("b")
        log.warning("c")
        log.error("d")

    assert [json.loads(line)["message"] for line in lines("json", "warning", write)] == ["c", "d"]
    assert len(lines("json", "debug", write)) == 3


def test_libraries_write_the_same_lines() -> None:
    (line,) = lines("json", "info", lambda _log: logging.getLogger("kubernetes").warning("odd: %s", 5))
    found = json.loads(line)
    assert (found["message"], found["logger"], found["level"]) == ("odd: 5", "kubernetes", "warning")


def test_a_field_cannot_take_the_place_of_the_message() -> None:
    (line,) = lines("json", "info", lambda log: log.info("text", level="mine"))
    assert json.loads(line)["level"] == "info" and json.loads(line)["level_"] == "mine"
