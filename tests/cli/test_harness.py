"""tern in EleutherAI's lm-evaluation-harness, beside the harness's own model for transformers. Needs the packages of
tools/requirements-harness.txt, and is skipped without them.

The model is a tiny Llama with random weights; the tasks are made here.
"""

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS, BUILD = ROOT / "tools", ROOT / os.environ.get("BUILD", "build")
sys.path.insert(0, str(TOOLS))
os.environ |= {"TERN_LIBRARY": str(BUILD / "libtern.so"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
WORDS = "cat dog bird fish tree house river moon star king queen bread milk apple book road hill rain snow wind".split()
CONTEXT = 64

TASKS = {
    "choice": {
        "output_type": "multiple_choice", "doc_to_text": "Question: {{text}}\nAnswer:", "doc_to_choice": "{{options}}",
        "target_delimiter": "", "doc_to_target": "gold", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    },
    "rolling": {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}} {{text}} {{text}} {{text}}",
        "metric_list": [{"metric": "bits_per_byte"}],
    },
    "answers": {
        "output_type": "generate_until", "doc_to_text": "Once {{text}}", "doc_to_target": "x", "metric_list": [{"metric": "exact_match"}],
        "generation_kwargs": {"until": ["e"], "max_gen_toks": 12, "do_sample": False},
    },
    "penalty": {
        "output_type": "generate_until", "doc_to_text": "Once {{text}}", "doc_to_target": "x", "metric_list": [{"metric": "exact_match"}],
        "generation_kwargs": {"until": [], "max_gen_toks": 8, "do_sample": False, "repetition_penalty": 1.4},
    },
}  # fmt: skip


def make_model(folder: Path) -> None:
    """A Hugging Face folder."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer, level = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel
    tokenizer.pre_tokenizer, tokenizer.decoder = level(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<s>", "</s>"], initial_alphabet=level.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([(ROOT / "README.md").read_text()], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=CONTEXT, bos_token_id=0, eos_token_id=1, initializer_range=0.2,
    )).save_pretrained(folder)  # fmt: skip


def make_tasks(folder: Path) -> None:
    rng = random.Random(3)

    def words(least: int, most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(least, most)))

    docs = [{"text": words(4, 30), "options": [" " + words(1, 4) for _ in range(4)], "gold": rng.randrange(4)} for _ in range(24)]
    (folder / "docs.json").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    common = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / "docs.json")}}, "test_split": "test"}
    for name, task in TASKS.items():  # JSON is YAML
        (folder / f"{name}.yaml").write_text(json.dumps({"task": f"tern_{name}", **common, **task}))


@unittest.skipUnless(all(map(importlib.util.find_spec, ("lm_eval", "torch", "accelerate"))), "no packages of tools/requirements-harness.txt")
class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import lm_eval
        from lm_eval.tasks import TaskManager
        from tern import harness  # noqa: F401, it registers the model

        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        os.environ["HF_HOME"] = str(cls.folder / "home")
        make_model(cls.folder / "hf")
        make_tasks(cls.folder)
        cls.file = cls.folder / "model.bin"
        subprocess.run([sys.executable, TOOLS / "convert.py", cls.folder / "hf", cls.file, "--type", "f32"], check=True, capture_output=True)
        manager = TaskManager(include_path=str(cls.folder), include_defaults=False)

        def evaluate(model: str, arguments: str, batch_size: int) -> dict:
            tasks = [f"tern_{name}" for name in TASKS]
            return lm_eval.simple_evaluate(model=model, model_args=arguments, tasks=tasks, task_manager=manager, log_samples=True,
                                           bootstrap_iters=0, batch_size=batch_size, device="cpu")  # fmt: skip

        cls.ours = evaluate("tern", f"path={cls.file},n_threads=1", 3)
        cls.theirs = evaluate("hf", f"pretrained={cls.folder / 'hf'},dtype=float32", 1)

    def responses(self, task: str):
        """Pairs of ours and theirs."""
        for ours, theirs in zip(self.ours["samples"][f"tern_{task}"], self.theirs["samples"][f"tern_{task}"], strict=True):
            self.assertEqual(ours["doc"], theirs["doc"])
            yield from zip((r[0] for r in ours["resps"]), (r[0] for r in theirs["resps"]), strict=True)

    def test_logprobs(self):
        for (ours, greedy), (theirs, their_greedy) in self.responses("choice"):
            self.assertAlmostEqual(float(ours), float(theirs), delta=1e-3)
            self.assertEqual(greedy, their_greedy)

    def test_rolling_windows(self):
        """The texts are longer than the context."""
        for ours, theirs in self.responses("rolling"):
            self.assertAlmostEqual(float(ours), float(theirs), delta=1e-5 * abs(float(theirs)))

    def test_answers(self):
        for task in ("answers", "penalty"):
            pairs = list(self.responses(task))
            self.assertEqual([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
            self.assertGreater(len({ours for ours, _ in pairs}), len(pairs) / 2)

    def test_scores(self):
        for task in ("choice", "answers"):
            numbers = [{k: v for k, v in r["results"][f"tern_{task}"].items() if "," in k} for r in (self.ours, self.theirs)]
            self.assertEqual(*numbers)

    def test_launcher(self):
        def launch(path: Path) -> subprocess.CompletedProcess:
            command = ["run", "--model", "tern", "--model_args", f"path={path}", "--tasks", "tern_choice", "--include_path", self.folder]
            return subprocess.run([sys.executable, "-m", "tern.harness", *command], text=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(TOOLS)})

        done = launch(self.file)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertRegex(done.stdout, r"tern_choice.*acc_norm|acc")
        failed = launch(self.folder / "none.bin")
        self.assertEqual(failed.returncode, 4)
        self.assertIn("tern.harness: ", failed.stderr.splitlines()[-1])
        self.assertNotIn("Traceback", failed.stderr)


if __name__ == "__main__":
    unittest.main()
