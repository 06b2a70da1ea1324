"""What the tests of the program run share: toy models with a tokenizer of bytes, and ways to call it."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/convert")]

from tern.convert.families import features  # noqa: E402
from tern.testing import toy, toyfile  # noqa: E402
from tern.weights import keys, tiles  # noqa: E402
from tern.weights import writer as weights  # noqa: E402

RUN = os.environ.get("RUN", "./run")
MAN = ROOT / "src/app/run/tern.1"
VOCAB = 259


def tokenizer_section() -> bytes:
    """<unk>, BOS, EOS and the 256 bytes: byte b is token b + 3, every text comes back as it was."""
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % b for b in range(256)]
    return keys.pack({
        "kind": "spm",
        "tokens.bytes": b"".join(tokens),
        "tokens.lengths": keys.U32s([len(t) for t in tokens]),
        "tokens.types": bytes([2, 3, 3] + [6] * 256),
        "scores": [0.0] * VOCAB,
        "byte_fallback": 1,
        "unk": 0,
        "bos": 1,
        "eos": 2,
        "add.before": keys.U32s([1]),
        "decoder.0": "byte_fallback",
    })


def write_model(path: Path, max_seq: int, norm: float | None = None, rope_limit: int = 0, text: bool = True,
                name: str = "toy", chat: bytes | None = None) -> None:  # fmt: skip
    """A toy with the tokenizer above, or without `text` with none, and perhaps a section `chat`; `norm`: value of every weight of the final norm; `rope_limit`: positions beyond
    which the frequencies are others."""
    config = {
        "n_layers": 2, "dim": 64, "vocab": VOCAB, "max_seq": max_seq, "norm_eps": 1e-5,
        "head_tied": 1, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "hidden": 160,
        "window": [0, 0], "attn_bias": 0, "ffn_bias": 0,
    }  # fmt: skip

    stored = toyfile.config_keys(config)
    if rope_limit:
        stored |= {"rope.0.limit": rope_limit, "rope.0.far_freq": stored["rope.0.inv_freq"] / 4}

    def entry(name: str, shape: tuple[int, ...]) -> weights.Tensor:
        rows, k = shape if len(shape) == 2 else (shape[0], 1)
        values = toy.values(name, shape, 5).reshape(rows, k)
        if norm is not None and name == "final_norm":
            values = values * 0 + values.dtype.type(norm)
        pieces = [tiles.tile(tiles.F32, toyfile.encode(tiles.F32, values))]
        return weights.Tensor(name, tiles.F32, rows, k, lambda: iter(pieces))

    sections = {
        "config": keys.pack(stored),
        "tokenizer": tokenizer_section(),
        "provenance": keys.pack({"name": name, "licence": "first\nsecond \x1b[31m line"}),
        "seal": weights.blank_seal(),
    }
    if not text:
        del sections["tokenizer"]
    if chat is not None:
        sections["chat"] = chat
    with open(path, "w+b") as out:
        weights.write(out, sections, [entry(*item) for item in toy.shapes(config).items()])


def write_guesser(path: Path) -> None:
    """A model whose next token follows from the last one alone, with a layer that guesses further tokens: what all other layers
    add is 0, and that layer passes the last token on. So all of its guesses are right."""
    config = toyfile.config_keys({
        "n_layers": 2, "dim": 64, "vocab": VOCAB, "max_seq": 512, "norm_eps": 1e-5, "head_tied": 0, "n_heads": 4, "n_kv_heads": 2,
        "head_dim": 16, "hidden": 160, "window": [0, 0, 0], "attn_bias": 0, "ffn_bias": 0,
    }) | {"mtp": 1}  # fmt: skip

    def entry(slot: features.Slot) -> weights.Tensor:
        x, part = toy.values(slot.name, (slot.rows, slot.k), 5), slot.layer_and_part[1]
        if part in ("o", "down"):
            x = 0 * x
        if part.endswith("norm"):
            x = np.ones_like(x)
        if part == "mtp_in":
            x = np.eye(slot.rows, slot.k, dtype=x.dtype)
        pieces = [tiles.tile(tiles.F32, toyfile.encode(tiles.F32, x))]
        return weights.Tensor(slot.name, tiles.F32, slot.rows, slot.k, lambda: iter(pieces))

    sections = {"config": keys.pack(config), "tokenizer": tokenizer_section(), "seal": weights.blank_seal()}
    with open(path, "w+b") as out:
        weights.write(out, sections, [entry(slot) for slot in features.slots(config)])


def softmax(x: np.ndarray) -> np.ndarray:
    """Of the last axis, in f64"""
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def until(condition, seconds: float = 120) -> None:
    """Waits until condition() holds. What runs beside a test may take the processor for seconds: no test may
    take a pause for progress."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the program did not get there")
        time.sleep(0.005)


def catches(p: subprocess.Popen, number: int) -> bool:
    """Whether the process has a handler for the signal."""
    with open(f"/proc/{p.pid}/status") as f:
        caught = next(line for line in f if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1 == 1


def processor_seconds(p: subprocess.Popen | int) -> float:
    """Of a process, or of the one with this number"""
    with open(f"/proc/{p if isinstance(p, int) else p.pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def state(p: subprocess.Popen) -> str:
    """Of the process's first thread: R runs, S waits, T is stopped."""
    return Path(f"/proc/{p.pid}/stat").read_text().rpartition(") ")[2][0]


class Cli(unittest.TestCase):
    """Runs the program; stdin is empty unless given."""

    @classmethod
    def setUpClass(cls):
        cls.dir = Path(tempfile.mkdtemp(prefix="tern-cli-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.model = str(cls.dir / "toy.bin")
        cls.long = str(cls.dir / "long.bin")
        write_model(Path(cls.model), 256)
        write_model(Path(cls.long), 65536)

    def run_it(self, *args, stdin=b"", **more) -> subprocess.CompletedProcess:
        return subprocess.run(
            [os.path.abspath(RUN), *map(str, args)], input=stdin, capture_output=True, timeout=300, **more
        )

    def good(self, *args, **more) -> bytes:
        done = self.run_it(*args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bad(self, code: int, *args, **more) -> str:
        """Ends with `code`, writes nothing to stdout and one line to stderr, which is returned."""
        done = self.run_it(*args, **more)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{args}: {text}")
        self.assertEqual(done.stdout, b"")
        self.assertRegex(text, r"\Arun: [^\n]+\n\Z")
        return text

    def start(self, *args, **more) -> subprocess.Popen:
        p = subprocess.Popen(
            [RUN, *map(str, args)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            **{"stdout": subprocess.PIPE, **more},
        )  # fmt: skip
        self.addCleanup(self.reap, p)
        return p

    def shim(self, source: str) -> dict[str, str]:
        """What puts the C library's functions in `source` before the program's."""
        made = self.dir / f"{source}.so"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run([*compiler, "-shared", "-fPIC", ROOT / "tests/cli" / source, "-o", made, "-ldl"], check=True)
        return {"LD_PRELOAD": str(made), "ASAN_OPTIONS": "verify_asan_link_order=0"}

    @staticmethod
    def reap(p: subprocess.Popen) -> None:
        if p.poll() is None:
            p.kill()
        p.wait()
        for f in (p.stdout, p.stderr):
            if f:
                f.close()
