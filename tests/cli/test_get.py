"""tools/get.py and convert.py by the name of a model, against a server that behaves like the Hugging Face hub."""
# run-tests: waits

import contextlib
import importlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from hub_server import Hub

from cli_case import ROOT  # first: it makes tools and tests/convert known

sys.path[:0] = [str(ROOT / "tests/convert")]
from tern.convert import words  # noqa: E402
from tern.weights import tiles  # noqa: E402

from convert_case import BLOCKS, gguf_model, huggingface, tensors  # noqa: E402

NAME = "some/Tiny-1B"
CHAT = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}


def models(folder: Path) -> dict[str, Path]:
    """What the hub holds."""
    values = tensors(BLOCKS)
    huggingface(folder / "one", BLOCKS, values, "bfloat16")
    huggingface(folder / "shards", BLOCKS, values, "bfloat16", shards=3)
    (folder / "one" / "original.pth").write_bytes(b"x" * 100_000)  # nobody needs it
    (folder / "one" / "chat_template.jinja").write_text(CHAT)
    for name in ("ggufs", "sizes", "torn", "many", "odd", "pickled"):
        (folder / name).mkdir()
    for kind in ("F16", "Q8_0"):
        gguf_model(folder / "ggufs" / f"tiny-{kind}.gguf", BLOCKS, values, kind)
    (folder / "ggufs" / "mmproj-tiny.gguf").write_bytes(b"GGUF")
    for name in ("sizes/tiny-Q8_0.gguf", "sizes/larger-Q8_0.gguf", "torn/tiny-00001-of-00003.gguf", "torn/tiny-00003-of-00003.gguf"):
        shutil.copy(folder / "ggufs" / "tiny-Q8_0.gguf", folder / name)
    for i in range(60):
        (folder / "many" / f"one-of-many-models-with-a-long-name-that-fills-lines-kind{i}.gguf").write_bytes(b"GGUF")
    (folder / "odd" / "config.json").write_text('{"model_type": "strange"}')
    shutil.copy(folder / "one" / "model.safetensors", folder / "odd")
    (folder / "pickled" / "pytorch_model.bin").write_bytes(b"PK")
    names = {"some/Shards": "shards", "some/GGUFs": "ggufs", "some/Sizes": "sizes", "some/Torn": "torn", "some/Many": "many",
             "some/Odd": "odd", "some/Pickled": "pickled", NAME: "one"}  # fmt: skip
    return {name: folder / at for name, at in names.items()}


class Get(unittest.TestCase):
    """The scripts run in this process: beginning one costs more than most of what is tested. `alone` runs one by itself."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.store = models(Path(folder.name))
        cls.hub = Hub({})
        cls.hub.__enter__()
        cls.addClassCleanup(cls.hub.__exit__)
        own = {"HF_ENDPOINT": cls.hub.endpoint, "HF_HOME": folder.name, "HF_HUB_DOWNLOAD_TIMEOUT": "5"}
        with mock.patch.dict(os.environ, CLEAN | own, clear=True):  # what the hub's package reads once
            importlib.import_module("tern.convert.hub")
            cls.scripts = {name: importlib.import_module(name) for name in ("get", "convert")}

    def setUp(self):
        from tern.convert import hub, rehearse

        self.dir = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)
        self.hub.__init__(dict(self.store), server=self.hub.server)
        self.constants = hub.constants
        cache = str(self.dir / "cache" / "hub")
        quick = mock.patch.object(rehearse, "SECONDS", 0.01)
        for change in (mock.patch.object(hub.constants, "HF_HUB_CACHE", cache), mock.patch.dict(os.environ, CLEAN, clear=True), quick):
            change.start()
            self.addCleanup(change.stop)

    def get(self, *arguments, script: str = "get.py", **env) -> tuple[int, str, str]:
        """Exit code, output and errors of a script."""
        out, err, here = io.StringIO(), io.StringIO(), os.getcwd()
        os.chdir(self.dir)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.dict(os.environ, env):
                code = self.scripts[script.removesuffix(".py")].main([str(a) for a in arguments])
        except SystemExit as e:
            code = e.code
        finally:
            os.chdir(here)
        return code, out.getvalue(), err.getvalue()

    def start(self, *arguments, **env) -> subprocess.Popen:
        """get.py by itself."""
        own = {"HF_ENDPOINT": self.hub.endpoint, "HF_HOME": str(self.dir / "cache"), "HF_HUB_DOWNLOAD_TIMEOUT": "5"}
        command = [sys.executable, str(ROOT / "tools" / "get.py"), *map(str, arguments)]
        return subprocess.Popen(command, env=CLEAN | own | env, cwd=self.dir, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ended(self, child: subprocess.Popen) -> tuple[int, str, str]:
        out, err = child.communicate(timeout=120)
        self.assertNotIn("Traceback", err)
        return child.returncode, out, err

    def refused(self, code: int, *words: str, **how) -> None:
        """get.py fails with one line that has the words."""
        arguments = how.pop("arguments", (NAME, "out.bin"))
        got, _, err = self.ended(self.start(*arguments, **how)) if how.pop("alone", False) else self.get(*arguments, **how)
        self.assertEqual(got, code, err)
        last = err.strip().splitlines()[-1]
        self.assertTrue(last.startswith("get.py: "), err)
        for word in words:
            self.assertIn(word, last)
        self.assertFalse(list(self.dir.glob("*.bin")))

    def test_name_to_text(self):
        code, out, err = self.ended(self.start(NAME, "out.bin", "--type", "q8"))
        self.assertEqual(code, 0, err)
        self.assertIn("licence   apache-2.0", out)
        self.assertIn("out.bin: Tiny-1B, ", out)
        self.assertLess(out.index("licence"), out.index("checked:"))
        self.assertIn("./run --check and --selftest passed", out)
        self.assertTrue(out.strip().splitlines()[-1].startswith("run it: "), out)
        self.assertFalse(any("original.pth" in path for _, path, _ in self.hub.requests))
        self.assertEqual(self.hub.sent(), 2)  # the header for the plan, then the file
        done = subprocess.run([ROOT / "run", self.dir / "out.bin", "ab", "-n", "3", "--temp", "0"], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        code, out, err = self.get(NAME, "again.bin")
        self.assertEqual(code, 0, err)
        self.assertIn("tokens/s", out)
        self.assertEqual((self.dir / "out.bin").read_bytes(), (self.dir / "again.bin").read_bytes())
        self.assertEqual(self.hub.sent(), 3)  # the header only: the file was in the cache

    def test_convert_takes_names(self):
        for name in (NAME, "some/Shards"):
            code, _, err = self.get(name, "named.bin", script="convert.py")
            self.assertEqual(code, 0, err)
            code, _, err = self.get(self.hub.models[name], "folder.bin", script="convert.py")
            self.assertEqual(code, 0, err)
            sizes = [(self.dir / f).stat().st_size for f in ("named.bin", "folder.bin")]
            self.assertLess(abs(sizes[0] - sizes[1]), 128)  # their names differ

    def test_gguf(self):
        code, out, err = self.get("some/GGUFs", "out.bin", "--type", "q8")
        self.assertEqual(code, 0, err)
        self.assertEqual({Path(p).name for _, p, _ in self.hub.requests if p.startswith("/blob/")}, {"tiny-Q8_0.gguf"})
        code, out, err = self.get("some/GGUFs:f16", "out.bin", "--type", "f16")
        self.assertEqual(code, 0, err)
        code, out, err = self.get("some/GGUFs:Q2_K", "out.bin")
        self.assertEqual(code, 2)
        self.assertIn("tiny-F16, tiny-Q8_0; name one as some/GGUFs:TYPE", err)

    def test_plan_downloads_nothing_large(self):
        before = set(self.dir.iterdir())
        for name in (NAME, "some/Shards", "some/GGUFs"):
            code, out, err = self.get("--plan", name)
            self.assertEqual(code, 0, err)
            for word in ("licence", "download", "tokens/s", "q8", "q4c", "use q"):
                self.assertIn(word, out)
        self.assertTrue(all(r for m, p, r in self.hub.requests if p.startswith("/blob/") and m == "GET"), "a range each")
        self.assertEqual({p.name for p in set(self.dir.iterdir()) - before}, {"cache"})

    def test_plan_states_the_size(self):
        _, out, _ = self.get("--plan", NAME)
        stated = next(line.split() for line in out.splitlines() if line.startswith("q8"))
        self.get(NAME, "out.bin", "--type", "q8")
        self.assertEqual(" ".join(stated[1:3]), words.size((self.dir / "out.bin").stat().st_size))
        rows = [line.split() for line in out.splitlines() if line.split()[0] in tiles.BY_NAME]
        self.assertEqual({row[0]: len(row) for row in rows}, {"f32": 5, "f16": 5, "bf16": 5, "q8": 7, "q4": 5, "q4c": 7})
        _, out, _ = self.get("--plan", NAME, "--type", "q4")
        self.assertRegex(out, r"(?m)^q4 +[\d.]+ kB +[\d.]+ MB +[\d.,]+ +[\d.,]+\nuse q4$")

    def test_model_get(self):
        """From Python, the same; and what is there is opened."""
        code = f"import tern\nfor _ in range(2):\n    with tern.Model.get({NAME!r}, type='q8', n_ctx=16) as m: print(m.info.type, m.n_ctx)\n"
        code += "try:\n    tern.Model.get('some/None')\nexcept tern.Error as e:\n    print(e, e.code)"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        env |= {"HF_ENDPOINT": self.hub.endpoint, "HF_HOME": str(self.dir / "cache"), "PYTHONPATH": str(ROOT / "tools")}
        done = subprocess.run([sys.executable, "-c", code], env=env, cwd=self.dir, text=True, capture_output=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout.count("q8 16\n"), done.stdout.count("download  ")), (0, 2, 1), done.stderr)
        self.assertRegex(done.stdout, "has no model some/None.* 2\n")
        self.assertTrue((self.dir / "Tiny-1B-q8.bin").exists())

    def test_gated(self):
        self.hub.gated = {NAME}
        self.refused(2, "gated", "HF_TOKEN", NAME)
        self.refused(2, "has no access", HF_TOKEN="bad")
        code, _, err = self.get(NAME, "out.bin", "--type", "q8", HF_TOKEN="good")
        self.assertEqual(code, 0, err)

    def test_missing(self):
        self.refused(2, "has no model some/Tiny-2B", "HF_TOKEN", "there are", NAME, arguments=("some/Tiny-2B",))
        self.refused(2, "no revision 'v9'", arguments=(f"{NAME}@v9",))
        self.refused(2, "owner/model", arguments=("tiny",))
        self.refused(3, "'strange' is not understood", arguments=("some/Odd",))
        self.refused(3, "only PyTorch pickles", arguments=("some/Pickled",))
        self.refused(2, "is a directory", arguments=(NAME, self.dir))

    def test_renamed(self):
        self.hub.renamed = {"old/name": NAME}
        code, out, err = self.get("old/name", "out.bin", "--type", "q8")
        self.assertEqual(code, 0, err)
        self.assertIn(f"old/name is now called {NAME}", out)

    def test_busy(self):
        self.hub.busy = 1000
        self.refused(4, "too many requests", "in 1 s", "HF_TOKEN")

    def test_failing(self):
        self.hub.failing = 1000
        self.refused(4, "status 500")

    def test_broken_transfers_are_resumed(self):
        wide = BLOCKS | {"intermediate_size": 32768}  # 25 MB: the hub's package keeps pieces of 10 MB
        huggingface(self.dir / "wide", wide, tensors(wide), "bfloat16")
        self.hub.models["some/Wide"] = self.dir / "wide"
        self.hub.cut = 1
        code, _, err = self.get("some/Wide", "out.bin", "--type", "q8")
        self.assertEqual(code, 0, err)
        self.assertIn("bytes=10485760-", [r for _, p, r in self.hub.requests if p.startswith("/blob/")])

    def test_wrong_bytes_are_loaded_again(self):
        self.hub.flip = 1
        code, out, err = self.get(NAME, "out.bin", "--type", "q8")
        self.assertEqual(code, 0, err)
        self.assertIn("the checksum is not the hub's; loading again", out)
        (self.dir / "out.bin").unlink()
        shutil.rmtree(self.dir / "cache")
        self.hub.flip = 1000
        self.refused(4, "another checksum", "model.safetensors")

    def test_unreachable(self):
        self.refused(4, "cannot reach", "localhost:9", alone=True, HF_ENDPOINT="http://localhost:9")
        self.refused(4, "cannot talk with", "check HF_ENDPOINT, http_proxy", alone=True, http_proxy="ftp://localhost")
        code, _, err = self.ended(self.start("--plan", NAME, HF_HUB_DOWNLOAD_TIMEOUT="soon"))
        self.assertEqual((code, "HF_ is not understood" in err), (2, True), err)

    def test_hanging(self):
        self.hub.hang = 1
        with mock.patch.object(self.constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2):
            self.refused(4, "cannot reach", "timed out")

    def test_offline(self):
        self.get("--plan", NAME)
        with mock.patch.object(self.constants, "HF_HUB_OFFLINE", True):
            self.refused(4, "is not whole in the cache")
            self.refused(4, "is not in the cache", arguments=("some/GGUFs",))
        self.get(NAME, "out.bin", "--type", "q8")
        requests = len(self.hub.requests)
        with mock.patch.object(self.constants, "HF_HUB_OFFLINE", True):
            for revision in ("", "@0123456789abcdef0123456789abcdef01234567"):
                code, out, err = self.get(NAME + revision, "again.bin", "--type", "q8")
                self.assertEqual(code, 0, err)
            self.assertEqual((self.dir / "out.bin").read_bytes(), (self.dir / "again.bin").read_bytes())
            for path in self.dir.glob("*.bin"):
                path.unlink()
            blob = next(path for path in (self.dir / "cache").rglob("model.safetensors")).resolve()
            blob.write_bytes(blob.read_bytes()[:-1] + b"?")
            self.refused(4, "model.safetensors", "is damaged in the cache")
        self.assertEqual(len(self.hub.requests), requests)

    def test_names(self):
        for text in (f"https://huggingface.co/{NAME}/tree/main", f"hf.co/{NAME}", f" {self.hub.endpoint}/{NAME}/ "):
            code, _, err = self.get("--plan", text)
            self.assertEqual(code, 0, err)
        for text in ("../Tiny-1B", "some/..", "some/--x", NAME + "@", ""):
            self.refused(2, "is no name of a model", arguments=(text,))
        self.refused(2, "is here already", "tools/convert.py", arguments=(self.store[NAME],))
        self.refused(2, "no revision '../x'", arguments=(f"{NAME}@../x",))
        with mock.patch.object(self.hub, "extra", ["../../evil.gguf", "/evil.gguf"], create=True):
            self.refused(3, "only PyTorch pickles", arguments=("some/Pickled",))

    def test_choice_of_gguf(self):
        code, out, err = self.get("--plan", "some/Sizes")
        self.assertEqual((code, "tiny-Q8_0 is taken; larger-Q8_0 would fit, too" in out), (0, True), out + err)
        self.refused(4, "2 of 3 parts are there", arguments=("some/Torn",))
        self.refused(2, "and 48 more; name one as some/Many:TYPE", arguments=("some/Many",))

    def test_tokens(self):
        self.hub.only = {"good"}
        self.refused(4, "does not accept the token of HF_TOKEN", HF_TOKEN="bad")
        for token in ("gr\u00fcn", "a\x01b"):
            self.refused(2, "HF_TOKEN has characters", HF_TOKEN=token)

    def test_room(self):
        """Both disks are looked at before anything large is loaded."""
        for inside, sentence in ((True, "the download needs"), (False, "while it is made")):
            free = lambda path: mock.Mock(free=1000 if ("cache" in str(path)) == inside else 1 << 40)  # noqa: B023, E731
            with mock.patch("shutil.disk_usage", side_effect=free):
                self.refused(4, sentence, "1.0 kB are")
        self.assertFalse(any(p.startswith("/blob/") and not r for _, p, r in self.hub.requests))
        self.refused(4, "is not a directory", arguments=(NAME, "none/out.bin"))
        with mock.patch("os.access", side_effect=lambda path, mode: Path(path) != Path(".") and Path(path) != self.dir):
            self.refused(4, "may not be written to by you", arguments=(NAME, self.dir / "out.bin"))

    def test_interrupted(self):
        self.hub.slow = 0.05
        child = self.start(NAME, "out.bin", "--type", "q8")
        while not self.hub.sent() > 1:  # the header for the plan, then the file
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        start = time.monotonic()
        code, _, err = self.ended(child)
        self.assertEqual((code, err), (130, ""))
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual([p.name for p in self.dir.iterdir()], ["cache"])
        self.hub.slow = 0
        both = [self.start(NAME, f"{n}.bin", "--type", "q8") for n in "ab"]  # at the same time
        for child in both:
            code, _, err = self.ended(child)
            self.assertEqual(code, 0, err)
        self.assertEqual((self.dir / "a.bin").read_bytes(), (self.dir / "b.bin").read_bytes())


if __name__ == "__main__":
    unittest.main()
