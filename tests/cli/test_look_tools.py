"""Files of look --capture in other people's tools: each reads the file as it is. Needs the packages of tools/requirements-look.txt;
a test whose package is missing is skipped."""

import importlib.util
import json
import re
import unittest
from pathlib import Path

import numpy as np
from look_case import FABLE, LookCase, look


def needs(package: str):
    return unittest.skipUnless(importlib.util.find_spec(package), f"no {package} (tools/requirements-look.txt)")


class Tools(LookCase):
    def capture(self, name: str, *arguments) -> Path:
        look(FABLE, *arguments, "-q", "--capture", self.folder / name)
        return self.folder / name

    def patterns(self) -> tuple[dict[str, np.ndarray], list[str]]:
        """Attention of a text, and names of its tokens."""
        cache = dict(np.load(self.capture("c.npz", "The cat sat on the mat", "--hooks", "*hook_pattern")))
        return cache, [str(token) for token in cache["tokens"][0]]

    @needs("circuitsvis")
    def test_circuitsvis_draws_patterns(self):
        import circuitsvis as cv

        cache, tokens = self.patterns()
        pattern = cache["blocks.2.attn.hook_pattern"][0]
        html = str(cv.attention.attention_heads(attention=pattern, tokens=tokens))
        drawn = json.loads(re.search(r'"attention": (\[\[\[.*?\]\]\])', html)[1])
        np.testing.assert_allclose(np.array(drawn), pattern, atol=1e-6)

    @needs("attnview")
    def test_attnview_makes_an_atlas(self):
        import attnview

        cache, tokens = self.patterns()
        study = attnview.from_cache(cache, tokens=tokens)
        self.assertEqual((len(study.layers), study.head_count), (5, 8))
        page = attnview.export_cache(cache, self.folder / "atlas.html", tokens=tokens)
        self.assertIn("Layer 4", page.read_text())

    @needs("sae_lens")
    def test_sae_lens_trains_on_lines(self):
        import torch
        from sae_lens import StandardTrainingSAE, StandardTrainingSAEConfig
        from sae_lens.config import SAETrainerConfig
        from sae_lens.training.sae_trainer import SAETrainer
        from safetensors.torch import load_file

        corpus, hook = self.folder / "corpus.txt", "blocks.3.hook_resid_post"
        corpus.write_text("".join(f"Once upon a time, {n} cats sat on the mat, and the dog came.\n" for n in range(200)))
        rows = load_file(self.capture("c.safetensors", "--lines", corpus, "--hooks", hook))[hook]
        torch.manual_seed(0)
        torch.set_num_threads(1)
        config = StandardTrainingSAEConfig(d_in=rows.shape[1], d_sae=128, l1_coefficient=0.1)
        sae = StandardTrainingSAE(config)
        batches = (rows[torch.randint(len(rows), (256,))] for _ in iter(int, 1))

        def unexplained() -> float:
            with torch.no_grad():
                return float((sae.decode(sae.encode(rows)) - rows).pow(2).sum() / (rows - rows.mean(0)).pow(2).sum())

        before = unexplained()
        SAETrainer(SAETrainerConfig(total_training_samples=256 * 40, train_batch_size_samples=256, lr=3e-3, lr_end=3e-3), sae, batches).fit()
        self.assertEqual(sae.encode(rows[:7]).shape, (7, 128))
        self.assertLess(unexplained(), before / 2)

    @needs("transformer_lens")
    def test_transformer_lens_takes_the_arrays_as_its_cache(self):
        import torch
        from transformer_lens import ActivationCache

        path = self.capture("c.npz", "The cat sat on the mat")
        cache = ActivationCache({name: torch.from_numpy(x) for name, x in np.load(path).items()}, model=None)
        self.assertEqual(cache["pattern", 2].shape, cache["blocks.2.attn.hook_pattern"].shape)
        torch.testing.assert_close(cache["resid_post", 4], cache["resid_mid", 4] + cache["mlp_out", 4])


if __name__ == "__main__":
    unittest.main()
