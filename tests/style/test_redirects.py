# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks with a login follow no redirect: the module uri sends its headers to the other host, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.style.sources import report
from tools.paths import ROOT
from tools.working_copy import repository_files

URI = "ansible.builtin.uri"
LOGINS = {"url_username", "url_password", "client_cert"}


def requests_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each task with the module uri, at any depth."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from requests_in(item)
    if isinstance(value, dict) and URI in value:
        yield value[URI]


def test_requests_with_a_login_follow_no_redirect() -> None:
    found = [
        (file, request)
        for file in repository_files()
        if file.suffix == ".yml" and file.parts[0] in ("roles", "playbooks") and "vars" not in file.parts
        for request in requests_in(yaml.safe_load((ROOT / file).read_text()))
    ]
    with_login = [(file, one) for file, one in found if LOGINS & one.keys() or "Authorization" in one.get("headers", {})]
    report([f"{file}: add follow_redirects: none" for file, one in with_login if one.get("follow_redirects") != "none"])
