# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The renewal of the server's certificate and of its client authority."""

from __future__ import annotations

import asyncio

from ..server import HttpServer
from .tls import TlsChange, TlsWatch, load_pair


async def renew(watch: TlsWatch, server: HttpServer) -> TlsChange | None:
    """Use changed files for new connections, and return the change. Raises OSError; then the server works as before."""
    change = await asyncio.to_thread(watch.change)
    if change is None or server.context is None:
        return None
    if change.authority:
        # New connections need a context without the old authority.
        await server.replace_context(change.context)
    else:
        load_pair(server.context, watch.files, change.contents)
    watch.in_use(change)
    return change
