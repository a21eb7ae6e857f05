# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Lease that lets one program at a time do a job, such as rescues. The program is a module or a daemon."""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ApiError, ConflictError, KubeError, NotFoundError, UnreachableError, is_transient
from ...kube.client.resources import LEASES
from ...model.api.coordination import Lease, LeaseSpec
from ...state.lease import acquired_spec, can_acquire, duration_of, lease_patch, released_spec
from .config_map_store import NAME, NAMESPACE, ConfigMapStore
from .guarded_patch import write_guarded

RETRY_S = 1.0
ASKED_EVERY_S = 2.0
"""Interval in which a program that has other work tries to acquire a Lease that another program holds."""
LOST = -math.inf
"""The end of a Lease that was released or that another program has acquired."""


def identity() -> str:
    """Return a unique identity for Lease holders and hold writers.

    It has host, process and a random part, because containers may share the first two.
    """
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class LeaseLostError(Exception):
    """The Lease is not held any more. Another program may be active, so this one must not write."""


class LeaderLease:
    """Holds the Lease ``namespace``/``name`` as ``identity``, which no other process may use.

    A thread renews it. All programs of a cluster that do the same job share one Lease. ``duration_s`` is in whole
    seconds: another program may acquire the Lease after this time without a renewal. The Lease is renewed every third of ``duration_s``.
    ``held`` ends two thirds of ``duration_s`` after the last successful renewal was sent, so a holder without an API server stops before
    another one can begin. Both are measured by the monotonic clock of the process, so a clock skew between machines has no effect. A Lease
    that does not exist may have been deleted while its holder is active. It is created after ``duration_s`` without a Lease, or immediately
    if it never had a holder. Each holder first creates the ConfigMap of the same name, so the absence of the ConfigMap proves that there
    was no holder. A holder that cannot read and write that ConfigMap cannot work and does not acquire the Lease.

    One case remains: if a user deletes the Lease and the ConfigMap while a holder is active, two programs may act for up to ten seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        identity: str,
        *,
        name: str = NAME,
        namespace: str = NAMESPACE,
        duration_s: int = 15,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api.with_timeouts(retry_for_s=0.0, answer_timeout_s=duration_s / 3)
        self._identity = identity
        self._name = name
        self._namespace = namespace
        self._duration_s = duration_s
        self._clock = clock
        self._valid_until_s: t.Optional[float] = None
        self._seen: t.Optional[Lease] = None
        self._seen_since_s = 0.0
        self._holder_is_active = False
        self._absent_since_s: t.Optional[float] = None
        self._create_after_s: t.Optional[float] = None
        self._config_map = ConfigMapStore(self._api, name=name, namespace=namespace)
        self._stopping = threading.Event()
        self._thread: t.Optional[threading.Thread] = None

    @property
    def held(self) -> bool:
        """True if this program holds the Lease and may write."""
        valid_until_s = self._valid_until_s
        return valid_until_s is not None and self._clock() < valid_until_s

    def ends_at_s(self) -> t.Optional[float]:
        """Return the end of the Lease without a further renewal, by the clock.

        The time is in the past if the Lease was lost. None if it was not acquired.
        """
        return self._valid_until_s

    @property
    def holder(self) -> str:
        """The holder at the last read; empty if there is none."""
        return (self._seen.spec.holder_identity if self._seen is not None else None) or ""

    @property
    def holder_is_active(self) -> bool:
        """True if another program has acquired or renewed the Lease since this one first read it, so a wait for its end may be long."""
        return self._holder_is_active

    def ensure_held(self) -> None:
        """Raise LeaseLostError if the Lease is not held. Call this before each write."""
        if not self.held:
            by = f": {self.holder} has it" if self.holder not in ("", self._identity) else ""
            raise LeaseLostError(f"the Lease {self._namespace}/{self._name} is not held any more{by}. The holder continues the work.")

    def acquire(self, timeout_s: float, *, give_up: t.Callable[[], bool] = lambda: False) -> bool:
        """Acquire the Lease and keep it renewed.

        Return False if another program holds it for ``timeout_s`` seconds; 0 means one try. If ``give_up`` returns true after a try, there
        is no other try. Raise UnreachableError or ApiError if the server does not respond in that time. Raise ForbiddenError, InvalidError,
        NotFoundError (no such namespace) immediately.
        """
        if self.held:
            return True
        self._stop_renewal()
        deadline_s = self._clock() + timeout_s
        while True:
            last_error: t.Optional[KubeError] = None
            try:
                if self._try_acquire():
                    self._start_renewal()
                    return True
            except (ApiError, UnreachableError) as error:
                if not is_transient(error):
                    raise
                last_error = error
            left_s = deadline_s - self._clock()
            if left_s <= 0 or give_up():
                if last_error is not None:
                    raise last_error
                return False
            self._stopping.wait(min(RETRY_S, left_s))

    def abandon(self) -> None:
        """Stop the renewal without a release.

        Others may acquire the Lease after its duration, when every request of its holder has ended.
        """
        self._stop_renewal()
        self._valid_until_s = LOST  # a write that is not sent yet is not sent any more

    def release(self) -> None:
        """Release the Lease, so that others can acquire it immediately. If that fails, it ends after its duration."""
        self.abandon()
        try:
            # A conflict follows if the last renewal has just succeeded.
            write_guarded(self._read, self._release, lambda lease: lease is None or lease.spec.holder_identity != self._identity)
        except KubeError:
            return

    def _release(self, lease: t.Optional[Lease]) -> None:
        if lease is not None and lease.spec.holder_identity == self._identity:
            self._patch(lease, released_spec(lease.spec, now_s=self._api.now_s()))

    def _try_acquire(self) -> bool:
        lease = self._read()
        unchanged_for_s = self._clock() - self._seen_since_s
        if lease is None and not self._may_create():
            return False
        if lease is not None and not can_acquire(lease.spec, self._identity, unchanged_for_s=unchanged_for_s):
            return False
        self._config_map.ensure_writable()
        try:
            self._write(lease)
        except ConflictError:
            return False  # another program was faster
        return True

    def _may_create(self) -> bool:
        """Return whether no program can hold the Lease that does not exist: its last holder has stopped, or there was none."""
        absent_for_s = self._clock() - (self._absent_since_s or 0.0)
        wait_s = self._duration_s if self._create_after_s is None else self._create_after_s
        return absent_for_s > wait_s or (self._create_after_s is None and self._config_map.get() is None)

    def _start_renewal(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._renew, name=f"lease {self._name}", daemon=True)
        self._thread.start()

    def _stop_renewal(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join(self._duration_s)
        self._stopping.clear()

    def _renew(self) -> None:
        pause_s = self._duration_s / 3
        while not self._stopping.wait(pause_s) and self.held:
            # While the server does not respond, the Lease ends only by time: the server may return soon.
            pause_s = min(RETRY_S, self._duration_s / 15)
            try:
                lease = self._read()
                if not self.held:
                    return
                if lease is not None and lease.spec.holder_identity != self._identity:
                    self._valid_until_s = LOST
                    return
                self._write(lease)  # this creates the Lease again if it was deleted
                pause_s = self._duration_s / 3
            except KubeError:
                continue

    def _write(self, lease: t.Optional[Lease]) -> None:
        sent_s = self._clock()
        before = lease.spec if lease is not None else None
        spec = acquired_spec(before, self._identity, now_s=self._api.now_s(), duration_s=self._duration_s)
        self._observe(self._create(spec) if lease is None else self._patch(lease, spec))
        self._valid_until_s = sent_s + self._duration_s * 2 / 3

    def _read(self) -> t.Optional[Lease]:
        try:
            lease: Lease = self._api.get(LEASES, self._namespace, self._name)
        except NotFoundError:
            self._seen = None
            self._absent_since_s = self._clock() if self._absent_since_s is None else self._absent_since_s
            return None
        self._observe(lease)
        return lease

    def _observe(self, lease: Lease) -> None:
        # Other changes of the object, such as a label, do not show that the holder is active.
        if self._seen is None or (self._seen.metadata.uid, self._seen.spec) != (lease.metadata.uid, lease.spec):
            self._seen_since_s = self._clock()
            self._holder_is_active = self._seen is not None and lease.spec.holder_identity not in (None, "", self._identity)
        self._seen = lease
        self._absent_since_s = None
        self._create_after_s = max(self._duration_s, duration_of(lease.spec))

    def _create(self, spec: LeaseSpec) -> Lease:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._name},
            "spec": lease_patch(spec),
        }
        made: Lease = self._api.create(LEASES, self._namespace, body)
        return made

    def _patch(self, lease: Lease, spec: LeaseSpec) -> Lease:
        patch = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": lease_patch(spec)}
        patched: Lease = self._api.merge_patch(LEASES, self._namespace, self._name, patch)
        return patched
