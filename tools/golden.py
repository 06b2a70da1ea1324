#!/usr/bin/env python3
"""Makes the golden tests: tests/golden/NAME.txt, the truth that tern's logits are held to.

    tools/golden.py [NAME ...]                   writes tests/golden/NAME.txt (all without a name)
    tools/golden.py --sample NAME DIR            a model of that entry, all of it random, as a Hugging Face directory
    tools/golden.py --probes SOURCE OUT.npz      what every step of a model gives, for `verify.py`; SOURCE is
                                                 a Hugging Face directory, or the NAME of a golden test
    tools/golden.py --attention NAME OUT.npz     attention and hidden states of a golden test, for look
    tools/golden.py --hooks NAME OUT.npz         what TransformerLens records of a golden test (needs transformer-lens)
    tools/golden.py --census                     checks the table of all causal language models in tools/README.md

Example: tools/golden.py --probes qwen3 probes.npz && tools/verify.py qwen3.bin probes.npz

Needs torch and transformers (not in requirements.txt: only whoever adds a family runs this). For each family
(tern/testing/golden_families.py) it builds tiny models whose weights come from the seeded generator of tests/support/toy.c, runs
transformers on a seeded prompt, and records config, 32 greedy tokens and some rows of logits. tern/testing/golden.py says
which seeds are taken.

To add a family: one entry in FAMILIES, run, commit the file; `make test` finds it by its name.
"""

import argparse
import sys
from pathlib import Path

from tern import script

if __name__ == "__main__":
    script.begin()

from tern.errors import USAGE, ConvertError


def parser() -> argparse.ArgumentParser:
    parser = script.parser("golden.py", __doc__)
    parser.add_argument("names", nargs="*", help="families (default: all)")
    parser.add_argument("--sample", nargs=2, metavar=("NAME", "DIR"), help="write a random model of a family")
    parser.add_argument("--probes", nargs=2, metavar=("SOURCE", "OUT"), help="write what every step gives")
    parser.add_argument("--attention", nargs=2, metavar=("NAME", "OUT"), help="write attention and hidden states")
    parser.add_argument("--hooks", nargs=2, metavar=("NAME", "OUT"), help="write what TransformerLens records")
    parser.add_argument("--census", action="store_true", help="check the table of all models in tools/README.md")
    parser.add_argument("--tokens", type=script.at_least(1), default=64, help="tokens of the probes of a directory (default: 64)")
    parser.add_argument("--rows", type=script.at_least(1), default=8, help="rows that the probes keep (default: 8)")
    return parser


def run(given: argparse.Namespace) -> None:
    import torch
    from tqdm import tqdm

    from tern.testing import census
    from tern.convert.families.features import in_range
    from tern.testing.golden import FOLDER, make, sample, write_attention, write_hooks, write_probes
    from tern.testing.golden_families import FAMILIES
    from tern.testing.golden_mtp import DRAFTS
    from tern.testing.golden_mtp import make as make_draft

    known = {family.name: family for family in FAMILIES}
    drafts = {draft.name: draft for draft in DRAFTS}
    for name in [*given.names, *(given.sample or [])[:1]]:
        if name not in known and (name not in drafts or name not in given.names):
            raise ConvertError(f"no family {name}; known: {', '.join([*known, *drafts])}", USAGE)
    torch.manual_seed(0)
    if given.sample:
        Path(given.sample[1]).mkdir(parents=True, exist_ok=True)
        sample(known[given.sample[0]], Path(given.sample[1]))
    if given.probes:
        in_range(given.rows, 1, 1 << 20, "--rows")
        write_probes(given.probes[0], Path(given.probes[1]), given.tokens, given.rows)
    if given.attention:
        write_attention(given.attention[0], Path(given.attention[1]), 40)
    if given.hooks:
        write_hooks(given.hooks[0], Path(given.hooks[1]), 12)
    if given.census:
        print(census.check())
    if given.census or given.sample or given.probes or given.attention or given.hooks:
        return
    (FOLDER / "mtp").mkdir(parents=True, exist_ok=True)
    for name in tqdm(given.names or [*known, *drafts], desc="models", disable=None, leave=False):
        made = (make, known[name]) if name in known else (make_draft, drafts[name])
        golden = made[0](made[1], lambda line: tqdm.write(line, file=sys.stderr))
        golden.write(FOLDER / f"{name}.txt")


def main(arguments: list[str] | None = None) -> int:
    return script.guarded(parser(), run, arguments, "requirements-train.txt")


if __name__ == "__main__":
    script.run(main)
