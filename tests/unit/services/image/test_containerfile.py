# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Containerfile can be built by any engine, without a network, on any base image that has Python."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.image_context import CONTAINERFILE

DOWNLOADS = ("apt", "apt-get", "apk", "curl", "wget", "git", "npm", "dnf", "yum", "http://", "https://")
BUILDKIT = re.compile(r"<<|--mount|--network|--security|--chmod|--link|--parents|--exclude|--checksum|^# *syntax *=", re.MULTILINE)
KNOWN = {"ARG", "FROM", "COPY", "ENV", "RUN", "LABEL", "WORKDIR", "USER", "ENTRYPOINT"}


def instructions(text: str) -> Iterator[tuple[str, str]]:
    joined = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    for line in filter(str.strip, joined.splitlines()):
        name, _space, rest = line.partition(" ")
        yield name, " ".join(rest.split())


def complaints(text: str) -> list[str]:
    """The rules that a Containerfile breaks."""
    found = [f"needs BuildKit: {match[0]}" for match in BUILDKIT.finditer(text)]
    for name, rest in instructions(text):
        if name not in KNOWN:
            found.append(f"{name} is not used here")
        if name in ("RUN", "ENTRYPOINT"):
            if not rest.startswith("["):
                found.append(f"{name} needs a shell: {rest}")
                continue
            words = json.loads(rest)
            if words[0] != "python3":
                found.append(f"{name} starts {words[0]}")
            if any(word in DOWNLOADS or word.startswith(DOWNLOADS[-2:]) for word in words) or (
                "pip" in words and "--no-index" not in words
            ):
                found.append(f"{name} downloads: {rest}")
    return found


TEXT = CONTAINERFILE.read_text()


def test_it_keeps_the_rules() -> None:
    assert complaints(TEXT) == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('RUN ["python3", "-m", "pip", "install", "numpy"]', "RUN downloads"),
        ('RUN ["apt-get", "install", "gcc"]', "RUN starts apt-get"),
        ("RUN python3 -m compileall /opt", "RUN needs a shell"),
        ('RUN --mount=type=cache,target=/root ["python3"]', "needs BuildKit: --mount"),
        ("COPY --chmod=755 a b", "needs BuildKit: --chmod"),
        ("COPY <<EOF /x", "needs BuildKit: <<"),
        ("# syntax=docker/dockerfile:1", "needs BuildKit: # syntax="),
        ("ADD https://example.org/x /x", "ADD is not used here"),
    ],
)
def test_a_broken_rule_is_found(line: str, complaint: str) -> None:
    assert any(one.startswith(complaint) for one in complaints(f"FROM base\n{line}\n"))


def test_the_base_image_is_an_argument_of_both_stages_and_nothing_else_is_pulled() -> None:
    given = list(instructions(TEXT))
    assert given[0][0] == "ARG" and given[0][1].startswith("BASE=")
    assert [rest.split()[0] for name, rest in given if name == "FROM"] == ["${BASE}", "${BASE}"]


def test_the_last_stage_runs_nothing_and_ends_without_root() -> None:
    last = list(instructions(TEXT[TEXT.rindex("\nFROM ") :]))
    assert "RUN" not in [name for name, _rest in last]
    assert [rest for name, rest in last if name == "USER"] == ["65532:65532"]
    entry = next(json.loads(rest) for name, rest in last if name == "ENTRYPOINT")
    assert entry == ["python3", "-m", "ansible_collections.onprem.kube_scheduling.services"]
