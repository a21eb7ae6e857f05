# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The image of the services on the controller, which the role service_image names, builds, saves and pushes."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.filter.without_logins import without_logins
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.containerd import OTHER_DELIVERIES, REPOSITORY
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.file_sum import sum_of
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.image_archive import digest_of, publish, write_archive
from ansible_collections.onprem.kube_scheduling.services import image_context

QUESTIONS = {
    "docker": ["version", "--format", "{{.Server.Arch}}"],
    "podman": ["info", "--format", "{{.Host.Arch}}"],
}
"""The command by which each engine tells its architecture."""
ARCHIVES = "kube-scheduling-services-"
LOCAL = re.compile(r"localhost|127\.")
"""Engines use a registry of the same machine without TLS."""
NAME = re.compile(r"(?P<host>[^/]*[.:][^/]*|localhost)/(?P<path>.+?)(?::(?P<tag>[^/:@]+))?(?:@(?P<digest>.+))?$")
"""NAME, NAME:TAG, NAME@DIGEST or NAME:TAG@DIGEST with a registry, whose name has a dot or a port."""
MANIFESTS = [f"application/vnd.oci.image.{kind}.v1+json" for kind in ("index", "manifest")]
MANIFESTS += [f"application/vnd.docker.distribution.{kind}.v2+json" for kind in ("manifest.list", "manifest")]


class ImageError(Exception):
    """Says what is wrong with the image, and what to do."""


class ServiceImage:
    """The image that the variables of the role describe. Only one that an engine builds has a tag."""

    def __init__(self, given):
        """Take a function that returns a variable by its name without the prefix."""
        self.given = given
        self.folder = Path(given("archive_folder")).expanduser().resolve()
        self.is_archive = given("delivery") == "archive"
        self.is_built = self.is_archive or bool(given("delivery") == "registry" and given("registry"))

    @cached_property
    def described(self):
        """The version of the collection, and the tag with the hash of everything that goes into the image."""
        given = self.given
        return image_context.describe(base=given("base"), python=given("python_version"), architecture=given("architecture"))

    @cached_property
    def name(self):
        """The name with the tag."""
        place = REPOSITORY if self.is_archive else f"{self.given('registry')}/services"
        return f"{place}:{self.described['tag']}"

    @property
    def archive(self):
        """The file of the archive."""
        return self.folder / f"{ARCHIVES}{self.described['tag']}-{self.given('architecture')}.oci.tar"

    @property
    def reference(self):
        """The name, and the digest if it is known: that of the archive, or of what the engine has pushed."""
        if not self.is_built:
            return self.given("reference")
        if self.is_archive:
            digest = digest_of(self.archive) if self.archive.exists() else ""
        else:
            digest = self._pushed_digest() if self._engine else ""
        return f"{self.name}@{digest}" if digest else self.name

    def problems(self):
        """Yield why the image cannot be delivered. Nothing is built for that."""
        if self.is_archive and self.archive.exists():
            yield from self._changed_archive()
        elif self.is_built:
            yield from self._engine_problems()
        if self.given("delivery") == "registry":
            yield from self._registry_problems()

    def deliver(self, dry):
        """Build and save or push the image, or check one that exists. Return whether something has changed."""
        exists = not self.is_built or (self.is_archive and self.archive.exists())
        if problems := list(self.problems() if exists else self._engine_problems()):
            raise ImageError("\n".join(problems))
        if exists:
            return False
        if not self.is_archive:
            return self._push(dry)
        if not dry:
            self._save()
        return True

    def remove(self, dry):
        """Remove the archives of all versions. Return whether there were some, and which of them cannot be removed."""
        found = [file for pattern in ("*.tar", "*.tar.sha256") for file in sorted(self.folder.glob(ARCHIVES + pattern))]
        errors = []
        for file in [] if dry else found:
            try:
                file.unlink()
            except OSError as error:
                errors.append(f"{file} cannot be removed ({error.strerror}): remove it")
        return len(found) > len(errors), errors

    @cached_property
    def _answers(self):
        """The errors of the engines, and the engine that answers with its architecture."""
        errors = []
        for engine in [self.given("engine")] if self.given("engine") in QUESTIONS else QUESTIONS:
            code, output, error = _run([engine, *QUESTIONS[engine]])
            if code == 0:
                return errors, engine, output.strip()
            errors.append(f"{engine}: {error.strip()}")
        return errors, "", ""

    @property
    def _engine(self):
        return self._answers[1]

    def _engine_problems(self):
        errors, engine, architecture = self._answers
        if not engine:
            copying = f"copy {self.archive.name} and its .sha256 from a machine that has an engine into {self.given('archive_folder')}, or "
            yield (
                f"No container engine answers on the controller, and the image {self.name} has to be built there ({'; '.join(errors)}). "
                f"Install and start docker or podman, or {copying if self.is_archive else ''}{OTHER_DELIVERIES}"
            )
        elif architecture != self.given("architecture"):
            yield (
                f"{engine} on the controller builds for {architecture}, and service_image_architecture is {self.given('architecture')}: "
                f"build on a machine of that architecture, and copy the archive into service_image_archive_folder, or {OTHER_DELIVERIES}"
            )

    def _changed_archive(self):
        sums = self.archive.with_name(f"{self.archive.name}.sha256")
        expected = (sums.read_text(encoding="utf-8").split() or [""])[0] if sums.exists() else ""
        found = sum_of(self.archive)
        if found != expected:
            yield (
                f"{self.archive} on the controller has the SHA-256 sum {found}, and {sums} "
                f"{f'says {expected}' if expected else 'is missing'}: copy both files again from the machine that has built them, or "
                "delete both so that the image is built again"
            )

    def _registry_problems(self):
        """Yield that the registry does not answer, or that it does not have the image of others.

        The login is not tried, and a registry that only the nodes reach may have their image. The OCI Distribution Specification describes
        the API. A registry without TLS answers with an error of TLS, and one with TLS answers 400 to http.
        """
        registry, reference = self.given("registry"), self.given("reference")
        parts = NAME.match(f"{registry}/services" if self.is_built else reference)
        # Docker Hub has its API under another name.
        if not parts or parts["host"] in ("docker.io", "index.docker.io"):
            return
        if self.is_built:
            # The engine may trust another certificate authority. Nothing secret is sent.
            status, text = _ask(parts["host"], "", validate_certs=False)
            if status not in (200, 400, 401) and not re.search("SSL|TLS", text):
                yield (
                    f"service_image_registry is {registry}, and the registry {parts['host']} does not answer on the controller ({text}): "
                    f"check the name and the network, and set https_proxy if the controller needs a proxy, or {OTHER_DELIVERIES}"
                )
            return
        place = f"{parts['path']}/manifests/{parts['digest'] or parts['tag'] or 'latest'}"
        status, text = _ask(parts["host"], place, headers={"Accept": ", ".join(MANIFESTS)})
        # Other servers that answer in the place of the registry have other texts.
        if status == 404 and re.search("(MANIFEST|NAME|TAG|DIGEST)_(UNKNOWN|INVALID)", text):
            yield (
                f"The registry {parts['host']} has no image {reference}: check the name, the tag and the digest, or set "
                "service_image_registry instead, so that this role builds the image and pushes it"
            )

    def _pushed_digest(self):
        """Return the digest with which the engine has pushed the image. An image of another user in the registry does not count."""
        place = f"{self.given('registry')}/services@"
        answer = _run([self._engine, "image", "inspect", "--format", "{{range .RepoDigests}}{{println .}}{{end}}", self.name])[1]
        return next((line.removeprefix(place) for line in answer.split() if line.startswith(place)), "")

    def _push(self, dry):
        is_new = _run([self._engine, "image", "inspect", self.name])[0] != 0
        if dry:
            return is_new
        if is_new:
            self._build(self.name)
        before = self._pushed_digest()
        try:
            self._call("push", self.name)
        except ImageError as error:
            registry = self.given("registry")
            raise ImageError(
                f"The image cannot be pushed to {registry}: {error}. Check the name and that the controller reaches the registry, and log "
                f"in with {self._engine} login {registry.split('/')[0]} as the user that runs Ansible"
            ) from error
        return is_new or self._pushed_digest() != before

    def _save(self):
        # Another run may build the same image at the same time, and removes only its own name from the engine.
        own = f"{REPOSITORY}:build-{random.randrange(10**12)}"
        self._build(own)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # The archive gets its name when it is complete, so that an interrupted run leaves no part of one.
            with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=self.folder) as folder:
                saved, made = Path(folder, "saved.tar"), Path(folder, "image.tar")
                self._call("save", "--output", str(saved), own)
                write_archive(saved, made, self.name)
                publish(made, self.archive)
        except (ImageError, OSError) as error:
            raise ImageError(
                f"The image {self.name} cannot be saved in {self.folder} on the controller: {error}. Free disk space there, or set "
                "service_image_archive_folder to another folder"
            ) from error
        finally:
            _run([self._engine, "rmi", own])

    def _build(self, name):
        given = self.given
        try:
            with tempfile.TemporaryDirectory(prefix="kube-scheduling-image-", ignore_cleanup_errors=True) as folder:
                context, wheels = Path(folder, "context"), Path(given("wheelhouse") or f"{folder}/wheels").expanduser().resolve()
                if not given("wheelhouse"):
                    target = {"python": given("python_version"), "architecture": given("architecture")}
                    image_context.download(wheels, **target, pip_arguments=given("pip_arguments"))
                image_context.assemble(context, wheelhouse=wheels)
                arguments = ["--build-arg", f"BASE={given('base')}", "--build-arg", f"VERSION={self.described['version']}"]
                arguments += [*given("build_arguments"), str(context)]
                self._call("build", "--file", str(context / "Containerfile"), "--tag", name, *arguments, lines=5)
        except (ImageError, image_context.ContextError) as error:
            reason = without_logins(" ".join(str(error).split()))
            raise ImageError(
                f"The image {self.name} cannot be built on the controller. {reason}. Check that service_image_base ({given('base')}) can "
                f"be pulled and has Python {given('python_version')}, or {OTHER_DELIVERIES}"
            ) from error

    def _call(self, command, *words, lines=3):
        """Run a command of the engine, which must succeed. The error has the last lines of what it has written."""
        code, output, error = _run([self._engine, command, *words])
        if code != 0:
            raise ImageError(f"{self._engine} {command}: {' '.join(without_logins(error or output).strip().splitlines()[-lines:])}")


def _run(words):
    """Run a program of the controller. Return its exit code, its output and its standard error."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return 127, "", "not installed"
    return done.returncode, done.stdout, done.stderr


def _ask(host, place, **options):
    """Return the status of a registry's answer, or -1, and the text or the error."""
    url = f"{'http' if LOCAL.match(host) else 'https'}://{host}/v2/{place}"
    try:
        answer = open_url(url, timeout=10, **options)
        return answer.getcode(), ""
    except HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace") or str(error)
    except (OSError, ValueError, HTTPException) as error:
        return -1, " ".join(str(error).split())
