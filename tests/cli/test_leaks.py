"""What Python leaves behind: memory, threads and descriptors, after many texts and many models. LEAKS=10000 makes that many texts, and a
tenth as many models (`make campaign`)."""

import gc
import os
import sys
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
os.environ["TERN_LIBRARY"] = str(ROOT / os.environ.get("BUILD", "build") / "libtern.so")

import tern  # noqa: E402

FABLE = ROOT / "models/fable.bin"
TEXTS = int(os.environ.get("LEAKS", 300))
MODELS = max(TEXTS // 10, 30)
SLACK = 4 << 20  # bytes: what allocators keep


def held() -> tuple[int, int, int]:
    """Bytes of resident memory, threads, open files."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), threading.active_count(), len(os.listdir("/proc/self/fd"))


class Leaks(unittest.TestCase):
    def unchanged(self, work, times: int) -> None:
        """work(i) leaves nothing behind once it has been done some times."""
        for i in range(times // 5):
            work(i)
        before = held()
        for i in range(times):
            work(i)
        after = held()
        self.assertLess(after[0] - before[0], SLACK)
        self.assertEqual(after[1:], before[1:])

    def test_texts(self):
        """Read to the end, ended early, dropped, several at once, a chat, with a callback that fails."""

        def failing(token, logits):
            raise RuntimeError

        with tern.Model(FABLE, n_ctx=64, n_threads=1, n_seqs=2) as model:

            def work(i: int) -> None:
                kind = i % 6
                if kind == 0:
                    "".join(model.generate("The cat", n_predict=4, stop=["x"], lookup=4))
                elif kind == 1:
                    with model.generate("The cat", n_predict=40) as text:
                        next(text)
                elif kind == 2:
                    next(model.generate("The cat", n_predict=40))
                elif kind == 3:
                    model.generate(["The cat", "A dog", "The"], n_predict=2)
                elif kind == 4:
                    list(model.chat([{"role": "user", "content": "Hello"}], template="chatml", n_predict=2))
                else:
                    with self.assertRaises(RuntimeError):
                        list(model.generate("The", n_predict=4, on_token=failing))

            self.unchanged(work, TEXTS)

    def test_models(self):
        """Closed, dropped, with a sequence, with a view that outlives them, and what does not open."""

        def work(i: int) -> None:
            kind = i % 5
            if kind == 4:
                with self.assertRaises(tern.Error):
                    tern.Model(Path(__file__))
                return
            model = tern.Model(FABLE, n_ctx=32, n_threads=1)
            if kind == 1:
                model.sequence().feed("The cat")
            elif kind == 2:
                view = model.logits("The cat", last=1, copy=False)
                model.close()
                self.assertEqual(view.shape, (1, model.vocab))
            elif kind == 3:
                next(model.generate("The cat", n_predict=20))
            if kind == 0:
                model.close()

        self.unchanged(work, MODELS)


if __name__ == "__main__":
    unittest.main()
