# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of the real kube-scheduler to a configuration: it checks the file and ends."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import trustme
import yaml

from tests.unreachable_cluster import KUBECONFIG

TIMEOUT_S = 120


class Answer(NamedTuple):
    """The exit code is 0 if it starts with the configuration. ``text`` is the error."""

    accepted: bool
    text: str


def existing_files(folder: Path) -> dict[str, str]:
    """Make the files that configurations name, and return their paths by field."""
    authority = trustme.CA()
    pair = authority.issue_cert("extender")
    paths = {name: folder / name for name in ("caFile", "certFile", "keyFile", "kubeconfig")}
    authority.cert_pem.write_to_path(str(paths["caFile"]))
    pair.cert_chain_pems[0].write_to_path(str(paths["certFile"]))
    pair.private_key_pem.write_to_path(str(paths["keyFile"]))
    paths["kubeconfig"].write_text(KUBECONFIG)
    return {name: str(path) for name, path in paths.items()}


def ask(program: str, configuration: Any, file: Path) -> Answer:
    """Return the answer to a configuration. The file is removed afterwards."""
    file.write_text(configuration if isinstance(configuration, str) else yaml.safe_dump(configuration, sort_keys=False))
    answer = ask_file(program, file)
    file.unlink()
    return answer


def run(program: str, configuration: Mapping[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Let the program check a configuration in ``folder``, and write it with its defaults to ``written.yaml`` there."""
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(dict(configuration)))
    command = [program, "--config", "scheduler.yaml", "--secure-port", "0", "--write-config-to", "written.yaml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)


def written_by(program: str, configuration: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return an accepted configuration as the program writes it."""
    answer = run(program, configuration, folder)
    assert answer.returncode == 0, answer.stderr
    written: dict[str, Any] = yaml.safe_load((folder / "written.yaml").read_text())
    return written


def ask_file(program: str, file: Path) -> Answer:
    """Return the answer to a file."""
    command = [program, "--config", str(file), "--secure-port", "0", "--write-config-to", "/dev/null"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    return Answer(found.returncode == 0, "\n".join(line for line in found.stderr.splitlines() if line[:1] not in "IW"))
