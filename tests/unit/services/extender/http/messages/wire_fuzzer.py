# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that sends mutated bodies to the decoder of requests, and prefers bodies that reach new code (atheris, libFuzzer).

python -m tests.unit.services.extender.http.messages.wire_fuzzer FOLDER INPUTS SEED.

``FOLDER/seeds`` has the first bodies. The counts of the
comparisons are in ``FOLDER/counts.json`` afterwards, and the body that breaks a rule is in ``FOLDER/crash-*``.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import atheris

COLLECTION = "ansible_collections.onprem.kube_scheduling"
LONGEST_BODY = 8192
TOKENS = ("Pod", "NodeNames", "Nodes", "items", "metadata", "name", "uid", "NodeNameToVictims", "NodeNameToMetaVictims", "Pods", "UID")
SHARE_OF_BYTES = 0.3
"""The share of mutations that change bytes. The others change parts of the JSON."""

SHARE_OF_SEEDS = 0.3
"""The share of mutations of a first body. The others mutate bodies that have reached new code, most of which are refused."""

with atheris.instrument_imports(include=[COLLECTION], enable_loader_override=False):
    from tests.unit.services.extender.http.messages.wire_mutations import changed_body
    from tests.unit.services.extender.http.messages.wire_rules import check_body


def main(folder: Path, inputs: int, seed: int) -> None:
    """Run so many inputs. This call ends the process."""
    seeds = [file.read_bytes() for file in sorted((folder / "seeds").iterdir())]
    counts: Counter[str] = Counter()

    def test_one_input(body: bytes) -> None:
        counts["inputs"] += 1
        counts.update(check_body(body))
        if counts["inputs"] == inputs:
            (folder / "counts.json").write_text(json.dumps(counts))

    def mutate(body: bytes, max_size: int, number: int) -> bytes:
        chance = random.Random(number)
        if chance.random() < SHARE_OF_SEEDS:
            body = chance.choice(seeds)
        changed = None if chance.random() < SHARE_OF_BYTES else changed_body(body, chance.choice(seeds), chance)
        return changed if changed is not None and len(changed) <= max_size else atheris.Mutate(body, max_size)

    tokens = folder / "tokens"
    tokens.write_text("".join(f'"\\"{token}\\":"\n' for token in TOKENS))
    flags = [f"-runs={inputs}", f"-seed={seed}", f"-max_len={LONGEST_BODY}", "-timeout=120", "-verbosity=0"]
    flags += [f"-dict={tokens}", f"-artifact_prefix={folder}/", str(folder / "seeds")]
    atheris.Setup([sys.argv[0], *flags], test_one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
