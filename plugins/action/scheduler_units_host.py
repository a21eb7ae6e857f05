# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Give the variables and units of the role extended_scheduler to the module on the host, and bring the programs that it does not have."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
import tarfile
import tempfile
import time
from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.onprem.kube_scheduling.plugins.filter.without_logins import without_logins
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.certificate import Certificate, read_certificate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import read_text
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import ARCHITECTURES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.scheduler_units import PYTHON, SERVICES
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.file_sum import sum_of
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.program_archive import CACHE, ProgramAction, ProgramArchive
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables

FOR_EVER_S = 2**63
IMAGE_CONTEXT = "ansible_collections.onprem.kube_scheduling.services.image_context"
RELEASE = "kubernetes-server-linux-ARCHITECTURE.tar.gz of a release of Kubernetes"
ENVIRONMENT = {"KUBECONFIG": "kubeconfig", "PYTHONPATH": SERVICES}
ENVIRONMENT |= {f"PYTHON{name}": "1" for name in ("DONTWRITEBYTECODE", "NOUSERSITE", "SAFEPATH", "UNBUFFERED")}
LOST = (
    " cannot be reached: repair it, or remove it from extended_scheduler_hosts. If it does not return, set "
    "extended_scheduler_scheduler_user and extended_scheduler_user to new names, so that its kubeconfigs lose their rights"
)


class ActionModule(ProgramAction):
    """The action of scheduler_units_host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module. A lost connection is an error of the task, so that the other hosts are restored."""
        result = super().run(tmp, task_vars)
        given = RoleVariables("extended_scheduler", self._templar, task_vars)
        state, host, file, program = self._task.args["state"], self._task.args["host"], "", ""
        problems, missing, made, files = [], [], [], {}
        if given("state") == "present":
            texts, problems, missing = kubeconfigs(given)
            file, checksum, problem = kube_scheduler(given)
            problems += [problem] if problem else []
            program = f"kube-scheduler-{checksum[:12]}"
            made, files = units(given, texts, program, lambda unit: self._rendered(unit, task_vars))
        arguments = {**self._task.args, "variables": host_variables(given, program, made), "files": files}
        try:
            if state == "present" and not self._task.check_mode:
                arguments["sources"] = self._sources(given, host, file)
            found = self._execute_module(module_args=arguments, task_vars=task_vars)
            cause = f" cannot be read ({found.get('msg')}): check that its connection can become root"
        except AnsibleConnectionFailure:
            found, cause = {"failed": True, "msg": f"{host} cannot be reached"}, LOST
        if state == "checked":
            # A host that cannot be read is named together with the other problems.
            nothing = {"changed": False, "problems": [host + cause], "missing": [], "profiles": [], "hostname": ""}
            found = nothing if found.get("failed") else found
            found.update(problems=problems + found["problems"], missing=missing + found["missing"])
        return result | found

    def _sources(self, given, host, file):
        """Bring the programs that the host did not have when it was checked. Return their paths there."""
        checked = given("__found")[host]
        has_services = "services" not in checked["needs"]
        archive = "" if has_services else extender_archive(given, host, checked["python"], checked["machine"])
        return self._brought({"program": file if "program" in checked["needs"] else "", "services": archive})

    def _rendered(self, unit, task_vars):
        variables = {**task_vars, "ansible_search_path": self._task.get_search_path(), "__extended_scheduler_unit": unit}
        lookup = self._shared_loader_obj.lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        (text,) = lookup.run(["unit.j2"], variables)
        return str(text)


def kubeconfigs(given):
    """Return the kubeconfig of each user, the reasons why they cannot be used, and the certificates of kubeadm that have expired.

    A kubeconfig that kubeadm has not made yet is empty.
    """
    paths, users, problems, missing = given("__given_kubeconfigs"), given("__kubeconfig_users"), [], []
    made = {one["item"]: base64.b64decode(one.get("content") or "").decode() for one in given("__made").get("results", [])}
    texts = {user: read_text(str(Path(path).expanduser())) if path else made.get(user, "") for user, path in paths.items()}
    if not any(paths.values()) and not given("__kubeadm_map"):
        remedy = "set extended_scheduler_scheduler_kubeconfig and extended_scheduler_extender_kubeconfig"
        problems.append(f"there is no ConfigMap kube-system/kubeadm-config, so kubeadm has not made the cluster: {remedy}")
    for user, path in paths.items():
        certificate = read_certificate(texts[user]) or Certificate(users[user], FOR_EVER_S)
        named, has_expired = certificate.common_name, certificate.not_after < time.time()
        if not path and has_expired:
            remedy = "run the playbook onprem.kube_scheduling.site or onprem.kube_scheduling.scheduler, which makes it"
            missing.append(f"the client certificate of the {user} on the hosts has expired: {remedy}")
        elif path and not texts[user]:
            what = f"the controller has no file {path}, which extended_scheduler_{user}_kubeconfig names"
            problems.append(f"{what}: copy the kubeconfig there")
        elif path and re.search(r"(?m)^ *-? *(certificate-authority|client-certificate|client-key|tokenFile|exec): ", texts[user]):
            remedy = "write their content into it, with kubectl config view --raw --flatten"
            problems.append(f"{path} names other files or a program, which the hosts do not have: {remedy}")
        elif path and named != users[user]:
            variable = "extended_scheduler_scheduler_user" if user == "scheduler" else "extended_scheduler_user"
            what = f"{path} has a certificate of the user {named}, and the rights are granted to {users[user]}"
            problems.append(f"{what}: set {variable} to the user of the certificate")
        elif path and has_expired:
            problems.append(f"{path} has a certificate that has expired: make a new one")
    return texts, problems, missing


def kube_scheduler(given):
    """Return the path of the kube-scheduler that is given, its SHA-256 sum, and the reason why there is none."""
    path, wanted = given("binary_path"), given("binary_checksum").removeprefix("sha256:").lower()
    names = ("extended_scheduler_binary_archive", "extended_scheduler_binary_checksum", RELEASE)
    packed = ProgramArchive(given("binary_archive"), wanted, "kube-scheduler", *names)
    file, problem = Path(path).expanduser() if path else packed.program, "" if path else packed.take()
    if path and not file.is_file():
        problem = f"the controller has no file {path}, which extended_scheduler_binary_path names: copy kube-scheduler there"
    return ("", "", problem) if problem else (str(file), sum_of(file), "")


def extender_hash():
    """Return the hash of the extender on hosts. Its wheels depend on the Python and the architecture of the host, too."""
    return importlib.import_module(IMAGE_CONTEXT).content_hash(base="host", python="", architecture="")


def extender_archive(given, host, python, machine):
    """Return the path of an archive with the collection and the wheels for a host. Raises AnsibleActionFail with the reason."""
    image = importlib.import_module(IMAGE_CONTEXT)
    archive = Path(CACHE, "host-services", f"services-{extender_hash()}-{python}-{machine}.tar").expanduser()
    if archive.exists():
        return archive

    def readable(member):
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=archive.parent) as scratch:
        wheels, context = Path(given("wheelhouse") or f"{scratch}/wheels").expanduser(), Path(scratch, "context")
        try:
            if not given("wheelhouse"):
                image.download(wheels, python=python, architecture=ARCHITECTURES[machine], pip_arguments=given("pip_arguments"))
            image.assemble(context, wheelhouse=wheels)
        except (image.ContextError, OSError) as error:
            reason = without_logins(" ".join(str(error).split())).replace("service_image_", "extended_scheduler_")
            what = f"{host}: the extender cannot be prepared for Python {python}"
            raise AnsibleActionFail(f"{what}: {reason}. No unit was changed") from None
        with tarfile.open(Path(scratch, "archive"), "w") as packed:
            packed.add(context, arcname=".", filter=readable)
        Path(scratch, "archive").replace(archive)
    return archive


def units(given, texts, program, render):
    """Return the units of a host, the extenders first, and the files of each. ``render`` returns the text of a unit."""
    made, files, port = [], {}, given("secure_port")

    def add(name, user, text, checks, url, **others):
        own = {f"{user}.yaml": text, "kubeconfig": texts[user]}
        mark = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:12]
        folder, after = f"{given('__units_folder')}/{name}-{mark}", [one["name"] for one in made] if user == "scheduler" else []
        check = [f"{variable}={value}" for variable, value in others["environment"].items()] + others["words"] + checks
        rendered = render({"folder": folder, "files": list(own), "after": after, **others})
        made.append({"name": f"kube-scheduling-{name}.service", "folder": folder, "check": check, "url": url, "text": rendered})
        files[made[-1]["name"]] = own

    for number, (extender, text) in enumerate(zip(given("__files")["extenders"], given("__extender_texts")), 1):
        words = [PYTHON, "-m", "ansible_collections.onprem.kube_scheduling.services", "extender", "--config", "extender.yaml"]
        others = {"description": f"Extender {number} of kube-scheduler, which scores nodes by live signals", "environment": ENVIRONMENT}
        url = f"http://127.0.0.1:{extender['status_port']}/readyz"
        add(extender["name"], "extender", text, ["--check-config"], url, words=words, **others)
    words = [f"{given('program_folder')}/{program}", "--config=scheduler.yaml", "--authentication-kubeconfig=kubeconfig"]
    words += ["--authorization-kubeconfig=kubeconfig", f"--secure-port={port}", f"-v={given('verbosity')}"]
    others = {"description": "kube-scheduler beside the scheduler of the cluster, with profiles of its own", "environment": {}}
    # Of two equal options, the last one counts.
    checks, url = ["--write-config-to=/dev/null", "--secure-port=0"], f"https://127.0.0.1:{port}/readyz"
    add("scheduler", "scheduler", given("__config"), checks, url, words=words, **others)
    return made, files


def host_variables(given, program, made):
    """Return the variables that the module needs."""
    names = ("state", "program_folder", "python", "secure_port", "__units_folder", "__system_folder")
    return {
        **{name.lstrip("_"): given(name) for name in names},
        "wait_timeout": int(given("wait_timeout")),
        "validate": boolean(given("validate")),
        "program": program,
        "services": extender_hash(),
        "ports": [str(port) for port in given("__ports")],
        "names": given("__files")["source_hosts"],
        "kubernetes_version": given("__version"),
        "units": made,
    }
