"""tools/get.py and convert.py by the name of a model, against a server that behaves like the Hugging Face hub."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from hub_server import Hub

from cli_case import ROOT  # first: it makes tools and tests/convert known

sys.path[:0] = [str(ROOT / "tests/convert")]
from tern.convert import words  # noqa: E402

from convert_case import BLOCKS, Case, gguf_model, huggingface, tensors  # noqa: E402

NAME = "some/Tiny-1B"


class Get(Case):
    def setUp(self):
        super().setUp()
        values = tensors(BLOCKS)
        huggingface(self.dir / "one", BLOCKS, values, "bfloat16")
        huggingface(self.dir / "shards", BLOCKS, values, "bfloat16", shards=3)
        (self.dir / "one" / "original.pth").write_bytes(b"x" * 100_000)  # nobody needs it
        (self.dir / "one" / "chat_template.jinja").write_text(
            "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
        )
        ggufs = self.dir / "ggufs"
        ggufs.mkdir()
        for kind in ("F16", "Q8_0"):
            gguf_model(ggufs / f"tiny-{kind}.gguf", BLOCKS, values, kind)
        (ggufs / "mmproj-tiny.gguf").write_bytes(b"GGUF")
        self.odd = self.dir / "odd"
        self.odd.mkdir()
        (self.odd / "config.json").write_text('{"model_type": "strange"}')
        (self.odd / "model.safetensors").write_bytes((self.dir / "one" / "model.safetensors").read_bytes())
        self.pickled = self.dir / "pickled"
        self.pickled.mkdir()
        (self.pickled / "pytorch_model.bin").write_bytes(b"PK")
        folders = {NAME: "one", "some/Shards": "shards", "some/GGUFs": "ggufs", "some/Odd": "odd", "some/Pickled": "pickled"}
        self.hub = self.enterContext(Hub({name: self.dir / folder for name, folder in folders.items()}))

    def get(self, *arguments, script: str = "get.py", kill_after: float = 0, **env) -> tuple[int, str, str]:
        """Exit code, output and errors of a script."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        clean |= {"HF_ENDPOINT": self.hub.endpoint, "HF_HOME": str(self.dir / "cache"), "HF_HUB_DOWNLOAD_TIMEOUT": "5"} | env
        command = [sys.executable, str(ROOT / "tools" / script), *map(str, arguments)]
        child = subprocess.Popen(command, env=clean, cwd=self.dir, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if kill_after:
            time.sleep(kill_after)
            child.terminate()
        out, err = child.communicate(timeout=120)
        self.assertNotIn("Traceback", err)
        return child.returncode, out, err

    def refused(self, code: int, *words: str, **how) -> None:
        """get.py fails with one line that has the words."""
        arguments = how.pop("arguments", (NAME, "out.bin"))
        got, _, err = self.get(*arguments, **how)
        self.assertEqual(got, code, err)
        last = err.strip().splitlines()[-1]
        self.assertTrue(last.startswith("get.py: "), err)
        for word in words:
            self.assertIn(word, last)
        self.assertFalse(list(self.dir.glob("*.bin")))

    def test_name_to_text(self):
        code, out, err = self.get(NAME, "out.bin", "--type", "q8")
        self.assertEqual(code, 0, err)
        self.assertIn("licence   apache-2.0", out)
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
            code, _, err = self.get(self.dir / self.hub.models[name].name, "folder.bin", script="convert.py")
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
        self.get("--plan", NAME)
        self.hub.flip = 1
        code, out, err = self.get(NAME, "out.bin", "--type", "q8")
        self.assertEqual(code, 0, err)
        self.assertIn("the checksum is not the hub's; loading again", out)
        with contextlib.suppress(FileNotFoundError):
            (self.dir / "out.bin").unlink()
        self.hub.flip = 1000
        self.refused(4, "another checksum", "model.safetensors", arguments=(NAME, "out.bin"), HF_HOME=str(self.dir / "new"))

    def test_offline(self):
        self.get(NAME, "out.bin", "--type", "q8")
        (self.dir / "out.bin").unlink()
        self.hub.server.shutdown()
        self.hub.server.server_close()
        self.refused(4, "cannot reach", self.hub.endpoint)


if __name__ == "__main__":
    import unittest

    unittest.main()
