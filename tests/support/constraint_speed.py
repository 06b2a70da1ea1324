#!/usr/bin/env python3
"""Decoding under a JSON schema beside free text: what the masks cost, and what forced tokens save.

  tests/support/constraint_speed.py model.bin [schema.json] [--threads 1] [--repetitions 5]

Three texts take turns: free, under the schema with every token chosen, and with forced tokens put in. The first has as many tokens as
the second. Each repetition has a seed of its own. Figures are the best of all; only decoding is timed.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import tern  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 16},
        "birth_date": {"type": "string", "format": "date"},
        "occupation": {"enum": ["engineer", "teacher", "physician", "unknown"]},
        "address": {
            "type": "object",
            "properties": {
                "street_and_number": {"type": "string", "maxLength": 24},
                "postal_code": {"type": "string", "pattern": "^[0-9]{5}$"},
                "country": {"enum": ["Germany", "France", "Spain", "Italy"]},
            },
            "required": ["street_and_number", "postal_code", "country"],
            "additionalProperties": False,
        },
        "number_of_children": {"type": "integer", "minimum": 0, "maximum": 12},
        "is_member": {"type": "boolean"},
    },
    "required": ["name", "birth_date", "occupation", "address", "number_of_children", "is_member"],
    "additionalProperties": False,
}
PROMPT = "The record of a person, as JSON:\n"


def generate(model: tern.Model, **options) -> tern.generate.Result:
    text = model.generate(PROMPT, **options)
    for _ in text:
        pass
    return text.result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("schema", nargs="?")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    schema = json.loads(Path(given.schema).read_text()) if given.schema else SCHEMA
    seconds: dict[str, list[float]] = {"free": [], "chosen": [], "forced": []}
    shares = []
    with tern.Model(given.model, n_ctx=2048, n_threads=given.threads) as model, tern.Constraint(model, "schema", json.dumps(schema)) as form:
        generate(model, n_predict=8)
        for seed in range(given.repetitions):
            chosen = generate(model, seed=seed, constraint=form, no_force=True)
            free = generate(model, seed=seed, n_predict=chosen.n_generated, ignore_end=True)
            forced = generate(model, seed=seed, constraint=form)
            for name, r in (("free", free), ("chosen", chosen), ("forced", forced)):
                seconds[name].append(r.generate_seconds / r.n_generated)
            shares.append(forced.n_forced / forced.n_generated)
            each = ", ".join(f"{name} {r.n_generated} tokens at {r.n_generated / r.generate_seconds:.2f}/s ({r.reason})"
                             for name, r in (("chosen", chosen), ("free", free), ("forced", forced)))  # fmt: skip
            print(f"seed {seed}: {each}", file=sys.stderr)
    free, chosen, forced = (min(seconds[name]) for name in seconds)
    print(f"free    {1 / free:8.2f} tokens/s")
    print(f"chosen  {1 / chosen:8.2f} tokens/s, {100 * (chosen / free - 1):+.2f} % of time")
    print(f"forced  {1 / forced:8.2f} tokens/s, {chosen / forced:.2f} times as fast; {100 * statistics.median(shares):.0f} % of tokens forced")


if __name__ == "__main__":
    main()
