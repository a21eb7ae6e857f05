# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A renewed token in a file is used."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.authorization import (
    TOKEN_FILE_READ_EVERY_S,
    TokenFile,
)

from tests.unit.support.clock import SetClock


def test_a_token_file_is_read_again_every_minute_and_the_last_token_is_kept_while_it_is_gone(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", SetClock()
    file.write_text("one\n")
    token = TokenFile(file, clock)
    file.write_text("two\n")
    assert token() == "Bearer one"
    clock.now_s += TOKEN_FILE_READ_EVERY_S
    assert token() == "Bearer two"
    file.unlink()
    clock.now_s += TOKEN_FILE_READ_EVERY_S
    assert token() == "Bearer two"
