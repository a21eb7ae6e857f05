# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The states of agents: in and out of them, and as the texts in which a ConfigMap keeps them: compressed, in base64, with a version.

The agents of other packages may raise anything.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Mapping

from ..interface import Agent

Fail = Callable[[str], None]
"""Receives a sentence about a failure."""

MAX_STATE_BYTES = 512 * 1024
"""The maximum of one state without compression, and of all texts of the ConfigMap."""
VERSION = "v1"
_OTHER = re.compile(r"[^-.A-Za-z0-9]")


class StateTextError(ValueError):
    """A text is not a saved state."""


def encode_state(state: bytes) -> str:
    """Return the text of a state. Equal states have equal texts. Raises StateTextError if the state is too long."""
    if len(state) > MAX_STATE_BYTES:
        raise StateTextError(f"the state has {len(state)} bytes, and the maximum is {MAX_STATE_BYTES}")
    return f"{VERSION}:{base64.b64encode(zlib.compress(state, 6)).decode()}"


def decode_state(text: str) -> bytes:
    """Return the state of a text. Raises StateTextError."""
    version, _colon, encoded = text.partition(":")
    if version != VERSION:
        raise StateTextError(f"the version is {version[:20]!r}, and this program reads {VERSION}")
    try:
        unpacker = zlib.decompressobj()
        state = unpacker.decompress(base64.b64decode(encoded, validate=True), MAX_STATE_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise StateTextError(f"the text is damaged: {error}") from error
    if len(state) > MAX_STATE_BYTES or not unpacker.eof:
        raise StateTextError("the text is not complete or too long")
    return state


def state_key(agent: str) -> str:
    """Return the key of an agent in the ConfigMap.

    Keys have letters, digits, hyphens, dots and underscores only. Any other character is replaced by its number.
    """
    return _OTHER.sub(lambda found: f"_{ord(found[0]):x}_", agent)


def state_of(key: str, agent: Agent, fail: Fail) -> bytes | None:
    """Return the present state of an agent, or None after a failure."""
    try:
        return agent.save()
    except Exception as error:
        fail(f"the state of agent {key} is not saved: {type(error).__name__}: {error}")
        return None


def give(key: str, agent: Agent, state: bytes, fail: Fail) -> None:
    """Let an agent take over a state."""
    try:
        agent.load(state)
    except Exception as error:
        fail(f"the saved state of agent {key} is not used: {error}")


def hand_over(before: Mapping[str, Agent], agents: Mapping[str, Agent], fail: Fail) -> None:
    """Let each agent take over the present state of the agent before it, which has the same key."""
    for key, agent in agents.items():
        earlier = before.get(key)
        if earlier is None or earlier is agent:
            continue
        state = state_of(key, earlier, fail)
        if state is not None:
            give(key, agent, state, fail)
