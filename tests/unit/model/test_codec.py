# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The continue token of a list, at every place where the server writes it."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model import codec


@pytest.mark.parametrize(
    ("page", "token"),
    [
        ('{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"t","remainingItemCount":7},"items":[]}', "t"),
        ('{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"continue":"no"}}]}', ""),
        ('{"kind":"NodeList","apiVersion":"v1","metadata":{"shardInfo":{"selector":"x"},"continue":"t"},"items":[]}', "t"),
        ('{"kind":"List","apiVersion":"v1","metadata":{"continue":"t}"},"items":[]}', "t}"),
        ('{"apiVersion":"x/v1","items":[{"metadata":{"continue":"no"}}],"kind":"XList","metadata":{"continue":"t"}}', "t"),
        ('{"apiVersion":"x/v1","items":[],"kind":"XList"}', ""),
        ('{"kind": "PodList", "metadata": {"continue": "t"}, "items": []}', "t"),
    ],
    ids=["first", "last", "nested", "a brace in it", "after the items", "no metadata", "with spaces"],
)
def test_the_token_is_found(page: str, token: str) -> None:
    assert codec.list_meta(page.encode()).continue_ == token


@pytest.mark.parametrize("page", ["", "[]", '{"kind":"PodList","apiVersion":"v1","metadata":{"continue":5},"items":[]}'])
def test_what_is_no_page_is_refused(page: str) -> None:
    with pytest.raises(codec.DecodeError):
        codec.list_meta(page.encode())


def test_items_are_not_scanned_for_a_token_that_stands_before_them() -> None:
    """So the next page can be asked for before this one has been checked."""
    assert codec.list_meta(b'{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"t"},"items":[no json').continue_ == "t"
