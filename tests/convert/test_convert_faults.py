"""Every call of the converter that opens, reads, writes, syncs, renames or closes a file fails in turn, and so does memory
at the same places: one sentence and the exit code of the error, no temporary file, and the old file as it was.

A conversion of many calls fails some of them; all with FAULTS=all. ADDING A SOURCE: a line in `test_sources`."""

import builtins
import contextlib
import gc
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from convert_case import BLOCKS, ROOT, SMALL, Case, gguf_model, huggingface, llama2c, run, tensors, tokenizer_bin
from tern import programs

TINY = SMALL | {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 32, "num_hidden_layers": 1}
SOME = 10_000 if os.environ.get("FAULTS") else 24
CALLS = {os: "open close pread preadv fstat fsync fchmod replace".split(), tempfile: ["mkstemp"], shutil: ["disk_usage"]}


class Faults(contextlib.ExitStack):
    """While it is entered, call number `at` raises an error of the system or of memory; `names` are all calls."""

    def __init__(self, at: int = 0, error: type[Exception] = OSError):
        super().__init__()
        self.at, self.error, self.names, self.name = at, error, [], ""

    def __enter__(self):
        gc.collect()  # files of earlier runs must not be closed within this one
        gc.disable()
        self.callback(gc.enable)
        for module, names in CALLS.items():
            for name in names:
                self.enter_context(unittest.mock.patch.object(module, name, self.failing(name, getattr(module, name))))
        self.enter_context(unittest.mock.patch.object(builtins, "open", self.opened))
        return super().__enter__()

    def step(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.at:
            self.name = name
            raise OSError(5, "Input/output error") if self.error is OSError or name == "close" else MemoryError()

    def failing(self, name: str, real):
        def call(*arguments, **more):
            if not sys._getframe(1).f_code.co_filename.startswith(str(ROOT / "tools")):
                return real(*arguments, **more)  # of a package, for its own ends
            if name == "close":
                real(*arguments, **more)  # it is closed all the same
            self.step(name)
            return None if name == "close" else real(*arguments, **more)

        return call

    def opened(self, file, mode: str = "r", *arguments, **more):
        """open() of a file of bytes, whose reads and writes are steps."""
        if "b" not in mode:
            return io.open(file, mode, *arguments, **more)
        if not isinstance(file, int):
            self.step("open")
        raw = Raw(file, mode.replace("b", ""))
        raw.faults = self
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedReader(raw)


class Raw(io.FileIO):
    faults: Faults

    def readinto(self, *arguments):
        self.faults.step("read")
        return super().readinto(*arguments)

    def readall(self, *arguments):
        self.faults.step("read")
        return super().readall(*arguments)

    def write(self, *arguments):
        self.faults.step("write")
        return super().write(*arguments)

    def truncate(self, *arguments):
        self.faults.step("truncate")
        return super().truncate(*arguments)


class EveryCall(Case):
    def sweep(self, name: str, *arguments) -> None:
        """A source, and options. At each place an error of the system, then one of memory."""
        self.out.write_bytes(b"old")  # which is looked at, too
        with Faults() as whole:
            code, _, err = run(arguments[0], self.out, *arguments[1:])
        self.assertEqual((code, err), (0, ""))
        made, failed = self.out.read_bytes(), set()
        before, count = None, len(whole.names)
        ends = {whole.names.index(name) + 1 for name in whole.names}
        ends |= set({name: at for at, name in enumerate(whole.names, 1)}.values())  # the first and last of each name
        for at in sorted({*range(1, count + 1, 1 + count // SOME), *ends}):
            for error, wanted in ((OSError, 4), (MemoryError, 5)):
                self.out.write_bytes(b"old")
                before = before or sorted(os.listdir(self.dir))
                with Faults(at, error) as faults:
                    code, _, err = run(arguments[0], self.out, *arguments[1:])
                where = f"{name}, call {at} of {count} ({faults.name}), {error.__name__}: {code} {err}"
                self.assertIn(code, (0, 4 if faults.name == "close" else wanted), where)
                self.assertEqual(err.count("\n"), bool(code), where)
                self.assertEqual(sorted(os.listdir(self.dir)), before, where)
                self.assertEqual(self.out.read_bytes(), b"old" if code else made, where)
                failed |= {faults.name} if code else set()
        self.assertLessEqual({"open", "fsync", "replace", "mkstemp"}, failed, name)
        print(f"{name}: {count} calls")

    def test_sources(self):
        values = tensors(TINY)
        tokenizer_bin(self.dir / "tokenizer.bin")
        folder = huggingface(self.dir / "hf", TINY, values, shards=2)
        (folder / "LICENSE").write_text("free")
        (folder / "generation_config.json").write_text('{"top_k": 3}')
        (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>", "chat_template": "{{ messages[0].content }}"}')
        self.sweep("directory", folder)
        self.sweep("GGUF", gguf_model(self.dir / "m.gguf", TINY, values)[0])
        self.sweep("llama2.c", llama2c(self.dir / "m.bin", TINY, values, 1))
        self.sweep("checked", folder, "--check", "--type", "f16")

    @unittest.skipUnless(all(os.access(ROOT / name, os.X_OK) for name in ("run", "quantize")), "run and quantize are not built")
    def test_with_programs(self):
        programs.ROOT = ROOT
        folder = huggingface(self.dir / "hf", BLOCKS, tensors(BLOCKS))
        self.sweep("sealed", folder)
        self.sweep("quantized", folder, "--type", "q8")


class Output(Case):
    """Standard output that cannot be written, in a process of its own."""

    def call(self, *arguments, **more) -> subprocess.CompletedProcess:
        command = [sys.executable, ROOT / "tools" / "convert.py", *arguments]
        return subprocess.run(list(map(str, command)), stderr=subprocess.PIPE, text=True, timeout=120, **more)

    def test_a_full_disk_and_a_reader_who_left(self):
        folder = huggingface(self.dir / "hf", TINY, tensors(TINY))
        with open("/dev/full", "w") as full:
            done = self.call(folder, "--dry-run", stdout=full)
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"\Aconvert.py: standard output: [^\n]+\n\Z")
        read, write = os.pipe()
        os.close(read)
        with open(write, "w") as left:
            done = self.call(folder, "--dry-run", stdout=left)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_closed_output(self):
        folder = huggingface(self.dir / "hf", TINY, tensors(TINY))
        command = f'"{sys.executable}" "{ROOT}/tools/convert.py" "{folder}" "{self.out}" >&- 2>&-'
        self.assertEqual(subprocess.run(["sh", "-c", command], timeout=120).returncode, 0)
        self.assertTrue(self.out.exists())

    def test_letters_that_the_terminal_lacks(self):
        folder = huggingface(self.dir / "Größe", TINY, tensors(TINY))
        done = self.call(folder, "--dry-run", stdout=subprocess.PIPE, env=os.environ | {"PYTHONIOENCODING": "ascii"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
