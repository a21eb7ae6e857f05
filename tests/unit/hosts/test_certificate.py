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
    return base64.b64encode(certificate.cert_chain_pems[0].bytes()).decode()


@pytest.mark.parametrize("not_after", [datetime(2027, 2, 3, 4, 5, 6, tzinfo=UTC), LAST_OF_TWO_DIGITS, FIRST_OF_FOUR])
def test_user_and_expiry_are_read(not_after: datetime) -> None:
    assert read_certificate(made(not_after) + "\n") == ("kube-scheduling-rescuer", int(not_after.timestamp()))


def test_text_that_is_no_certificate_gives_nothing() -> None:
    whole = base64.b64decode(made(FIRST_OF_FOUR))
    lines = whole.splitlines(keepends=True)
    cut_off = b"".join([lines[0], *lines[1:4], lines[-1]])
    for text in ("", "kubeconfig", "%%%", base64.b64encode(b"key").decode(), base64.b64encode(cut_off).decode()):
        assert read_certificate(text) is None
