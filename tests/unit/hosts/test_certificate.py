# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The user and the expiry of certificates that another library has made."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
import trustme
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.certificate import read_certificate

LAST_OF_TWO_DIGITS, FIRST_OF_FOUR = datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)


def made(not_after: datetime, name: str = "kube-scheduling-rescuer") -> str:
    certificate = trustme.CA().issue_cert("localhost", common_name=name, not_after=not_after)
    return certificate.cert_chain_pems[0].bytes().decode()


def in_kubeconfig(pem: str) -> str:
    return f"    client-certificate-data: {base64.b64encode(pem.encode()).decode()}\n"


@pytest.mark.parametrize("not_after", [datetime(2027, 2, 3, 4, 5, 6, tzinfo=UTC), LAST_OF_TWO_DIGITS, FIRST_OF_FOUR])
def test_user_and_expiry_are_read(not_after: datetime) -> None:
    pem = made(not_after)
    for text in (f"-----BEGIN EC PRIVATE KEY-----\nKEY\n{pem}", in_kubeconfig(pem), pem.encode().hex() + in_kubeconfig(pem)):
        assert read_certificate(text) == ("kube-scheduling-rescuer", int(not_after.timestamp()))


def test_text_that_is_no_certificate_gives_nothing() -> None:
    lines = made(FIRST_OF_FOUR).splitlines(keepends=True)
    cut_off = ["".join([lines[0], *lines[1:number], lines[-1]]) for number in (4, len(lines) - 2)]
    for text in ("", "kubeconfig", "client-certificate-data: A", in_kubeconfig("key"), *cut_off, *map(in_kubeconfig, cut_off)):
        assert read_certificate(text) is None
