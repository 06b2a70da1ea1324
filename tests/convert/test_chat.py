#!/usr/bin/env python3
"""Chat templates: the rules that the converter finds, and what the engine makes of them, against the templates.

tests/convert/chat_templates holds the templates of well-known models. Each is learned with a small tokenizer that has its special
tokens, stored in a toy's weights file, and rendered by the engine: text equal to jinja2's, ids equal to those of the
tokenizers package on the text between the special tokens, joined. Where transformers is installed, it renders, too.
"""
# run-tests: long

import contextlib
import ctypes
import functools
import io
import itertools
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402
import tokenizers  # noqa: E402
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers  # noqa: E402

import convert  # noqa: E402
from tern import library as engine  # noqa: E402
from tern import programs  # noqa: E402
from tern.convert import job  # noqa: E402
from tern.convert.chat import builtin, chat, jinja, learn, limits, of_source, rules  # noqa: E402
from tern.convert.chat import errors as chat_errors  # noqa: E402
from tern.convert.families import settings  # noqa: E402
from tern.convert.tokenizers import byte_level, section, tokenizer, tokenizer_json  # noqa: E402
from tern.testing import toyfile  # noqa: E402
from tern.weights import keys, tiles  # noqa: E402
from tern.convert.chat.conversations import conversations  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build")
RUN = os.environ.get("RUN", str(BUILD / "run"))
TEMPLATES = sorted((ROOT / "tests" / "convert" / "chat_templates").glob("*.jinja"))
CONVERSATIONS = 200
REFUSED: dict[str, str] = {}
SPECIAL = re.compile(
    r"<\|[\w]+\|>|<(?:start|end)_of_turn>|\[/?(?:INST|SYSTEM_PROMPT)\]|<｜[\w▁]+｜>"
    r"|<\|\w+>|<\w+\|>|\[gMASK\]|<sop>|\]~!?b[\]\[]|\[e~\[|\[\|\w+\|\]"
)
ROLES = ["<|user|>", "<|assistant|>", "<|system|>"]
# Special tokens that these templates put together from pieces.
MORE = {"phi-4": ["<|im_sep|>"], "phi-4-mini": ROLES, "phi-3-small": ROLES, "stablelm-2": ROLES, "glm-4.5": ROLES, "glm-4.7": ROLES,
        "exaone-4": ["[|user|]", "[|assistant|]", "[|system|]"], "kimi-k2": ["<|im_user|>", "<|im_assistant|>"]}
# How the tokenizers of these families are made; all others are byte-level.
KINDS = {"llama-2": "prepend", "mistral-v0.1": "prepend", "mistral-v0.2": "first", "mistral-v0.3": "first", "zephyr": "first",
         "gemma-1": "never", "gemma-2": "never", "gemma-3": "never", "phi-3": "rstrip", "phi-3.5": "rstrip"}  # fmt: skip
WORDS = ["the", "is", "in", "You", "user", "assistant", "system", "It", "es", "\n\n", "##", "an"]


def special_tokens(name: str, source: str) -> list[str]:
    own = ["<s>", "</s>", "<unk>", *SPECIAL.findall(source), *MORE.get(name, [])]
    return [s for s in dict.fromkeys(own) if "tool" not in s and s != "<|role|>"]


def make_tokenizer(name: str, source: str, more: list[str] | None = None) -> tokenizers.Tokenizer:
    """All bytes, a few words, and the special tokens of the template, or those that are named."""
    kind = KINDS.get(name, "bytes")
    special = special_tokens(name, source) if more is None else list(dict.fromkeys(["<s>", "</s>", "<unk>", *more]))
    vocab = {s: i for i, s in enumerate(special)}
    level = kind in ("bytes", "rstrip")
    if level:
        units = sorted(pre_tokenizers.ByteLevel.alphabet())
        word = [byte_level.alphabet_text(w.encode()) for w in WORDS] + ["ĠH", "Ġt"]
    else:
        units = [f"<0x{b:02X}>" for b in range(256)] + [chr(c) for c in range(33, 127)] + ["▁"]
        word = [w for w in WORDS if w != "\n\n"] + ["▁H", "▁t"]
    for unit in units:
        vocab.setdefault(unit, len(vocab))
    merges = []
    for w in word:
        for i in range(2, len(w) + 1):
            pair = (w[: i - 1], w[i - 1])
            if pair not in merges and pair[0] in vocab and pair[1] in vocab:
                merges.append(pair)
                vocab.setdefault(w[:i], len(vocab))
    t = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=not level))
    if level:
        t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    elif kind == "prepend":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    elif kind == "first":
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Replace(" ", "▁")
    if not level:
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    rstrip = {"<|user|>", "<|assistant|>", "<|end|>", "<|system|>"} if kind == "rstrip" else set()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False, rstrip=s in rstrip) for s in special])
    return t


def ours(made: tokenizers.Tokenizer) -> tokenizer.Tokenizer:
    """The same as the converter reads it."""
    text = made.to_str()
    return tokenizer_json.from_json(json.loads(text), "the test", {"bos_token": "<s>", "eos_token": "</s>"}, text)


class Oracle:
    """Ids by the tokenizers package: special tokens where the template wrote them, and between them plain text."""

    def __init__(self, made: tokenizers.Tokenizer):
        made_json = json.loads(made.to_str())
        self.whole = made
        self.first = tokenizers.Tokenizer.from_str(json.dumps(made_json))
        if (made_json.get("pre_tokenizer") or {}).get("prepend_scheme") == "first":
            made_json["pre_tokenizer"]["prepend_scheme"] = "never"
        self.later = tokenizers.Tokenizer.from_str(json.dumps(made_json))
        self.first.encode_special_tokens = self.later.encode_special_tokens = True
        self.special = {a["content"]: a for a in made_json["added_tokens"]}

    def hide(self, text: str) -> str:
        """A text in which no special token is found, until show() undoes it."""
        longest_first = map(re.escape, sorted(self.special, key=len, reverse=True))
        return re.sub("|".join(longest_first), lambda m: f"\ue000{m[0][0]}\ue001{m[0][1:]}", text)

    @staticmethod
    def show(text: str) -> str:
        return re.sub("\ue000(.)\ue001", r"\1", text)

    def ids(self, hidden: str) -> list[int]:
        """Of a rendering with hidden texts."""
        out, after = [], None
        for piece in tokenizer.split_at(hidden, self.special):
            if piece in self.special:
                out.append(self.special[piece]["id"])
            else:
                text = self.show(piece)
                if after and after["rstrip"]:
                    text = text.lstrip(" \t\n\r\u3000\u00a0\u2028\u2029\x0b\x0c\x85")
                out += (self.later if after else self.first).encode(text, add_special_tokens=False).ids if text else []
            after = self.special.get(piece)
        return out


def transformers_render(source: str):
    """transformers' own compiled template, or None."""
    try:
        from transformers.utils.chat_template_utils import _compile_jinja_template
    except ImportError:
        return None
    return _compile_jinja_template(source)


def weights_file(path: Path, t: tokenizer.Tokenizer, more: dict) -> Path:
    """A toy with that tokenizer and those sections."""
    config = {"n_layers": 1, "dim": 8, "vocab": len(t.tokens), "max_seq": 64, "norm_eps": 1e-5, "head_tied": 1}
    config |= {"n_heads": 1, "n_kv_heads": 1, "head_dim": 8, "hidden": 8, "window": [0], "attn_bias": 0, "ffn_bias": 0}
    with open(path, "w+b") as f:
        toyfile.write(f, config, 1, tiles.F32, more={"tokenizer": section.section(t), **more})
    return path


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tern-chat-")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    @staticmethod
    @functools.cache
    def learn(path: Path):
        """(oracle tokenizer, our tokenizer, chat, source) of a template."""
        source = path.read_text()
        made = make_tokenizer(path.stem, source)
        t = ours(made)
        tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        return made, t, learn.learn(path.stem, source, tokens, t), source

    def open(self, path: Path, t: tokenizer.Tokenizer) -> engine.Engine:
        return engine.Engine(BUILD / "libtern.so", path, 16)


class Templates(Case):
    def test_engine_equals_the_templates(self):
        for path in TEMPLATES:
            with self.subTest(path.stem):
                if path.stem in REFUSED:
                    with self.assertRaisesRegex(chat_errors.Beyond, re.escape(REFUSED[path.stem])):
                        self.learn(path)
                else:
                    self.check(path)

    def test_effort_is_a_way_to_ask_for_thoughts(self):
        *_, learned, _ = self.learn(ROOT / "tests/convert/chat_templates/hunyuan-3.jinja")
        self.assertEqual((learned.thinking, learned.template.told), (2, ("no_think", "high")))
        for think, end in ((True, "<think>"), (False, "<think></think>"), (None, "<think></think>")):
            steps = chat.render(learned, [{"role": "user", "content": "q"}], True, think)
            self.assertTrue(rules.text_of(steps).endswith("<｜hy_Assistant｜>" + end))

    def check(self, path: Path) -> None:
        made, t, learned, source = self.learn(path)
        oracle, theirs, same, n = Oracle(made), transformers_render(source), 0, 0
        file = weights_file(self.dir / "m.bin", t, {"chat": chat.section(learned)})
        with self.open(file, t) as e:
            self.assertEqual(e.chat_info().thinking, learned.thinking)
            for messages, generate, think in conversations(3 * CONVERSATIONS, learned.thoughts, seed=3):
                try:
                    want = learned.template.render(messages, generate, think)
                    hidden = [m | {"content": oracle.hide(m["content"])} for m in messages]
                    hidden = learned.template.render(hidden, generate, think)
                except chat_errors.Rejected:
                    continue
                flags = int(generate) | (0 if think is None else 2 if think else 4)
                try:
                    text, ids = e.chat_text(messages, flags).decode(), e.chat_tokens(messages, flags)
                except RuntimeError:
                    self.assertEqual(messages[0]["role"], "system", "the engine has no form for it")
                    self.assertFalse(e.chat_info().takes_system)
                    continue
                self.assertEqual(text, want)
                if oracle.show(hidden) == want:  # else the template trims, and the hidden edges differ
                    self.assertEqual(ids, oracle.ids(hidden), (messages, want))
                    n += 1
                if not any(s in m["content"] for s in oracle.special for m in messages):
                    self.assertEqual(ids, made.encode(want, add_special_tokens=False).ids)
                if theirs and not learned.template.dated:
                    told = {} if think is None or not learned.template.thinking else {learned.template.thinking: learned.template.told[think]}
                    args = learned.template.tokens | told | {"messages": messages, "add_generation_prompt": generate}
                    self.assertEqual(theirs.render(tools=None, documents=None, **args), want)
                same += 1
                if min(same, n) == CONVERSATIONS:
                    break
        self.assertEqual(min(same, n), CONVERSATIONS, "too few conversations were compared")


# What the built-in templates are equal to, except for what they do not do: the thoughts of a last answer, an EOS at the
# end, asking for an answer that nobody wants.
BUILTIN = {"chatml": "chatml", "gemma": "gemma-3", "granite": "granite-3.0", "llama2": "llama-2", "llama3": "llama-3",
           "mistral": "mistral-v0.3", "phi3": "phi-3.5", "qwen3": "qwen3", "vicuna": "vicuna", "zephyr": "zephyr"}  # fmt: skip


class Builtin(Case):
    def test_names(self):
        made = make_tokenizer("chatml", "")
        t = ours(made)
        with self.open(weights_file(self.dir / "m.bin", t, {}), t) as e:
            e.lib.tern_chat_builtin.restype = ctypes.c_char_p
            names = list(iter(lambda i=itertools.count(): e.lib.tern_chat_builtin(ctypes.c_size_t(next(i))), None))
            self.assertEqual(tuple(n.decode() for n in names), chat.BUILTIN)
            self.assertEqual({*BUILTIN}, {*chat.BUILTIN})
            self.assertIsNone(e.chat_info())
            with self.assertRaisesRegex(RuntimeError, "no built-in chat template 'x'; there are: chatml gemma"):
                e.chat_use("x")
            with self.assertRaisesRegex(RuntimeError, "has no chat template"):
                e.chat_use(None)
            e.chat_use("chatml")  # without its special tokens: as text
            self.assertEqual((e.chat_info().end, e.chat_info().stop), (-1, b"<|im_end|>"))
            text = e.chat_text([{"role": "user", "content": "Hi"}], 1)
            self.assertEqual(text, b"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
            ids = e.chat_tokens([{"role": "user", "content": "Hi"}], 1)
            self.assertEqual(ids, made.encode(text.decode(), add_special_tokens=False).ids)
        stored = chat.section(builtin.builtin_for("chatml", t))
        with self.open(weights_file(self.dir / "m.bin", t, {"chat": stored}), t) as e:
            self.assertEqual(e.chat_tokens([{"role": "user", "content": "Hi"}], 1), ids)

    def test_c_file_is_what_the_generator_writes(self):
        written = (ROOT / "src" / "text" / "chat_builtin.c").read_text()
        self.assertEqual(written, builtin.c_source(), "tools/chat_builtin.py writes it anew")

    def test_equal_the_templates(self):
        for name in chat.BUILTIN:
            with self.subTest(name):
                path = ROOT / "tests" / "convert" / "chat_templates" / f"{BUILTIN[name]}.jinja"
                self.check(name, path.stem, path.read_text())

    def check(self, name: str, stem: str, source: str) -> None:
        made = make_tokenizer(stem, source)
        t = ours(made)
        template = jinja.Template(source, {"bos_token": "<s>", "eos_token": "</s>"})
        stored = chat.section(builtin.builtin_for(name, t))
        self.assertEqual(stored, chat.section(builtin.builtin(name)), "the tokenizer has all of its special tokens")
        n = 0
        with self.open(weights_file(self.dir / "m.bin", t, {"chat": stored}), t) as e:
            self.assertEqual(e.chat_info().name, name.encode())
            self.assertGreaterEqual(e.chat_info().end, 0)
            self.assertTrue(e.chat_info().takes_system)
            for messages, generate, think in conversations(400, seed=4):
                if name == "qwen3" and messages[-1]["role"] == "assistant" or name in ("llama3", "phi3") and not generate:
                    continue
                flags = int(generate) | (0 if think is None else 2 if think else 4)
                want = template.render(messages, generate, think)
                self.assertEqual(e.chat_text(messages, flags).decode(), want)
                if not any(s in m["content"] for s in special_tokens(stem, source) for m in messages):
                    self.assertEqual(e.chat_tokens(messages, flags), made.encode(want, add_special_tokens=False).ids)
                n += 1
        self.assertGreaterEqual(n, 190)


class Convert(Case):
    """tools/convert.py and ./run on a small model with a template."""

    C = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 16,
         "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 1e4, "tie_word_embeddings": True, "eos_token_id": 1}  # fmt: skip

    def model(self, stem: str, source: str) -> Path:
        """A directory as transformers writes it."""
        made, folder = make_tokenizer(stem, source), self.dir / "model"
        folder.mkdir(exist_ok=True)
        vocab, one, rng = made.get_vocab_size(), np.ones(16, np.float32), np.random.default_rng(1)
        parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj")
        values = {"model.embed_tokens.weight": rng.standard_normal((vocab, 16), np.float32), "model.norm.weight": one}
        for part in (*parts, "mlp.down_proj"):
            values[f"model.layers.0.{part}.weight"] = rng.standard_normal((16, 16), np.float32)
        values |= {f"model.layers.0.{n}.weight": one for n in ("input_layernorm", "post_attention_layernorm")}
        safetensors.numpy.save_file(values, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.C | {"vocab_size": vocab}))
        made.save(str(folder / "tokenizer.json"))
        config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": source}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        return folder

    def call(self, *arguments) -> tuple[int, str, str]:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def convert(self, *arguments) -> tuple[int, str, str]:
        return self.call(sys.executable, ROOT / "tools" / "convert.py", self.dir / "model", self.dir / "m.bin", *arguments)

    def info(self, *arguments) -> str:
        return self.call(RUN, self.dir / "m.bin", "--info", *arguments)[1]

    def test_stored_template_proves_itself(self):
        self.model("qwen3", (ROOT / "tests/convert/chat_templates/qwen3.jinja").read_text())
        code, out, err = self.convert()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("reacts to '</tool_response>', '<tool_response>' in a message", out)
        code, out, err = self.call(RUN, self.dir / "m.bin", "--selftest")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"{2 * chat.STORED} conversations, {chat.STORED} of them with tools, are as the source's template writes them", out)
        self.assertIn("are as the source's template writes them", self.call(RUN, self.dir / "m.bin", "--selftest", "--template", "gemma")[1])
        self.assertRegex(self.info(), r"chat +template model, thinks by default, ")
        self.assertRegex(self.info("--template", "gemma"), r"chat +template gemma\n")
        code, _, err = self.call(RUN, self.dir / "m.bin", "--info", "--template", "nobody")
        self.assertEqual(code, 2)
        self.assertIn("no built-in chat template 'nobody'; there are: chatml", err)

    def test_selftest_names_the_chat_that_differs(self):
        folder = self.model("gemma-3", (ROOT / "tests/convert/chat_templates/gemma-3.jinja").read_text())
        source = job.load(folder, None, None, settings.Settings())
        source.chat = of_source.of_source(source, None, source.notes)
        vectors = chat.vectors(source.chat, source.tokenizer)
        stored = {"chat": chat.section(source.chat)}
        last = np.array(vectors["chat.ids"])
        last[-1] ^= 1
        text = bytearray(vectors["chat.text.bytes"])
        text[0] ^= 1
        counts = np.array(vectors["chat.counts"])
        counts[-1] += 1
        for change, word in (
            ({"chat.ids": keys.U32s(last)}, f"chat: conversation {chat.STORED - 1} differs"),
            ({"chat.text.bytes": bytes(text)}, "chat: conversation 0 differs"),
            ({"chat.counts": keys.U32s(counts)}, "its lengths do not fit"),
            ({"chat.counts": keys.U32s([99] * chat.STORED)}, "its lengths do not fit"),
            ({"chat.flags": keys.U32s([1])}, "its lengths do not fit"),
            ({"chat.id_lengths": keys.U32s([1 << 31] * chat.STORED)}, "its lengths do not fit"),
        ):
            made = stored | {"vectors": keys.pack(vectors | change)}
            code, _, err = self.call(RUN, weights_file(self.dir / "bad.bin", source.tokenizer, made), "--selftest")
            self.assertIn(code, (1, 3))
            self.assertIn(word, err)

    def test_refused_template_leaves_a_model(self):
        self.addCleanup(setattr, programs, "ROOT", programs.ROOT)
        programs.ROOT = self.dir  # without a program to seal with, which takes time
        for source, reason in (
            ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "leaves out a message"),
            ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "writes a text twice"),
            ("{% for m in messages %}{{ m.content | replace(' ', '') }}.{% endfor %}", "changes the texts"),
            ("{% for m in messages %}{{ m.content | length }}{{ m.content }}{% endfor %}", "changes the texts"),
            ("{% for m in messages %}{{ m.content }}{{ '!' if 'ï' in m.content }}{% endfor %}", "it writes '.*!"),
            ("{% for m in messages | reverse if m.role != 'system' %}{{ m.content }}{% endfor %}", "order of messages"),
            ("{% for m in messages | reverse %}{{ m.content }}{% endfor %}", "system text behind"),
            ("{% for m in messages %}{{ loop.index }}{{ m.content }}{% endfor %}", "in different ways"),
            ("{{ raise_exception('never') }}", "rejects every conversation: never"),
            ("{% if %}", "is not valid"),
            ("{{ messages.__class__ }}{{ ''.__class__.__mro__ }}", "rejects every conversation: SecurityError"),
            ("\1{% for m in messages %}{{ m.content }}.{% endfor %}", "control characters"),
        ):
            with self.subTest(source):
                self.model("x", source)
                said = io.StringIO()
                with contextlib.redirect_stdout(said):
                    code = convert.main([str(self.dir / "model"), str(self.dir / "m.bin")])
                self.assertEqual(code, 0)
                self.assertRegex(said.getvalue(), f"no chat template is stored: .*{reason}.*--template")
        self.assertRegex(self.info(), "chat +no template")

    def test_template_is_chosen(self):
        self.model("x", "{{ raise_exception('never') }}")
        self.assertEqual(self.convert("--template", "zephyr")[0], 0)
        self.assertRegex(self.info(), "chat +template zephyr, an answer ends with token 1")
        self.assertEqual(self.convert("--template", ROOT / "tests/convert/chat_templates/llama-2.jinja")[0], 0)
        self.assertRegex(self.info(), "chat +template llama-2")
        code, _, err = self.convert("--template", "nobody")
        self.assertEqual(code, 2)
        self.assertIn("no template of chatml", err)

    def test_tokens_that_nobody_names_are_the_tokenizers(self):
        folder = self.model("llama-2", (ROOT / "tests/convert/chat_templates/llama-2.jinja").read_text())
        source = job.load(folder, None, None, settings.Settings())
        self.assertEqual(of_source.named_tokens(source), {"bos_token": "<s>", "eos_token": "</s>"})
        source.template_tokens = {"bos_token": "</s>"}
        self.assertEqual(of_source.named_tokens(source), {"bos_token": "</s>", "eos_token": "</s>"})

    def test_date_is_fixed(self):
        self.model("llama-3.2", (ROOT / "tests/convert/chat_templates/llama-3.2.jinja").read_text())
        code, out, _ = self.convert()
        self.assertEqual(code, 0)
        self.assertIn("writes the date; it is fixed to 26 July 2024", out)


class Proof(Case):
    """What only long conversations and texts show, or one word; and what takes too much of the machine."""

    TURN = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    REFUSED = (  # (what is looped over, what a message becomes, the reason)
        ("messages[-8:]", TURN, "^with 8 messages it writes '<|im_start|>user"),
        ("messages | batch(10) | first", TURN, "^with 1[01] messages"),
        ("messages", TURN.replace("content", "content[:500]"), "^with a text of [0-9]+ words"),
        ("messages", TURN.replace("content", "content[:9000]"), "^with a text of [0-9]+ (words|lines|characters)"),
        ("messages", TURN.replace("content", "content | truncate(1000)"), "^with a text of [0-9]+ words"),
        ("messages", "{% if m.content|length > 20*1024 %}!{% endif %}" + TURN, "^with a text of [0-9]+ "),
        ("messages", "{% if m.content|length == 30 ** 3 %}!{% endif %}" + TURN, "^with a text of 27000 characters"),
        ("messages", "{% if m.content|wordcount == 777 %}!{% endif %}" + TURN, "^with a text of 77[0-9] words"),
        ("messages", "{% if messages|length > 9 %}!{% endif %}" + TURN, "^with 10 messages it writes '!"),
        ("messages", "{% if messages|length == 1234 %}!{% endif %}" + TURN, "^with 1234 messages it writes '!"),
        ("messages", "{% if messages|length * 3 == 201 %}!{% endif %}" + TURN, "^with 67 messages it writes '!"),
        ("messages", "{% if messages|length > 20 %}{{ raise_exception('long') }}{% endif %}" + TURN, "^with 21 messages it refuses: long"),
        ("messages", "{% if loop.index > 7 %}!{% endif %}" + TURN, "^with [78] messages"),
        ("messages", "{% if loop.index % 8 == 0 %}!{% endif %}" + TURN, "^with [78] messages"),
        ("messages", "{% if loop.index0 is divisibleby(53) and loop.index0 %}!{% endif %}" + TURN, "^with 5[34] messages"),
        ("messages", "{% if m.content|length > 200001 %}!{% endif %}" + TURN, "^it has the number 200001 in line 1"),
        ("messages", "{% if m.content|length > 10**6 %}!{% endif %}" + TURN, "^it has the number 1000000 in line 1"),
        ("messages", TURN.replace("content", "content | replace('“', '\"')"), "^with '“' in a message"),
        ("messages", TURN.replace("content", "content.replace('“', '\"')"), "^with '“' in a message"),
        ("messages", TURN.replace("content", "content | replace('<br>', '\n')"), "^with '<br>' in a message"),
        ("messages", TURN.replace("content", "content.split('::')[0]"), "^with '::' in a message"),
        ("messages", TURN.replace("content", "content.removeprefix('/ask ')"), "^with '/ask ' in a message"),
        ("messages", "{% set old = '¿' %}" + TURN.replace("content", "content | replace(old, '')"), "^with '¿' in a message"),
        ("messages", TURN.replace("content", "content | replace('¿', '' if loop.index > 7 else '¿')"), "^with '¿' in 42 messages"),
        ("messages", "{% if m.content.rstrip('#') != m.content and loop.last %}!{% endif %}" + TURN, "^with '#' in a message"),
    )  # fmt: skip

    @classmethod
    def setUpClass(cls):
        cls.tokenizer = ours(make_tokenizer("x", ""))

    def learn_source(self, source: str):
        return learn.learn("x", source, {}, self.tokenizer)

    def test_what_few_and_short_messages_do_not_show_is_refused(self):
        for loop, turn, reason in self.REFUSED:
            with self.subTest(loop=loop, turn=turn), self.assertRaisesRegex(chat_errors.Beyond, reason):
                self.learn_source(f"{{% for m in {loop} %}}{turn}{{% endfor %}}")

    def test_harmless_constants_are_not_refused(self):
        for turn in ("{% if m.role in ['user', 'system', 'assistant'] %}" + self.TURN + "{% endif %}",
                     "{% if loop.index > 0 and m.content|length >= 0 %}" + self.TURN + "{% endif %}",
                     "{% set unused = '“' %}{% set limit = 4096 %}" + self.TURN):  # fmt: skip
            with self.subTest(turn):
                self.assertEqual(self.learn_source("{% for m in messages %}" + turn + "{% endfor %}").notes, [])

    def test_texts_that_a_template_reacts_to_are_told(self):
        commands, response = "'/no_think', '/system_override', '/think'", "'</tool_response>', '<tool_response>'"
        for name, words in (("smollm3", commands), ("qwen3", response)):
            *_, learned, _ = self.learn(ROOT / f"tests/convert/chat_templates/{name}.jinja")
            self.assertEqual(learned.notes[0], f"the chat template reacts to {words} in a message; stored as rules, it will not")
        for test, words in (("m.content in ['reset', '/clear']", "'/clear', 'reset'"), ("m.content == 'reset'", "'reset'"),
                            ("m.content.startswith('/x')", "'/x'"), ("messages|length > 7 and '/x' in m.content", "'/x'")):  # fmt: skip
            with self.subTest(test):
                learned = self.learn_source("{% for m in messages %}{% if " + test + " %}!{% endif %}" + self.TURN + "{% endfor %}")
                self.assertEqual([n.split("reacts to ")[1].split(" in a message")[0] for n in learned.notes], [words])

    def test_waiting_counts(self):
        """The limit is on the clock: a machine that is busy does not make a person wait for minutes."""
        begin = time.monotonic()
        with self.assertRaisesRegex(chat_errors.Beyond, "^it runs for more than 1 seconds$"), limits.time_limit(1):
            time.sleep(20)
        self.assertLess(time.monotonic() - begin, 10)

    def test_endless_template_is_stopped(self):
        self.addCleanup(setattr, limits, "SECONDS", limits.SECONDS)
        limits.SECONDS = 1
        endless = "".join(f"{{% for {v} in range(9999) %}}" for v in "abc") + 3 * "{% endfor %}"
        with self.assertRaisesRegex(chat_errors.Beyond, "runs for more than 1 second"):
            self.learn_source(endless)

    @unittest.skipUnless(Path("/proc/self/statm").exists(), "no limit of memory on this system")
    def test_template_that_takes_all_memory_is_stopped(self):
        limit = resource.getrlimit(resource.RLIMIT_AS)
        turns = "{% for m in messages %}" + self.TURN + "{% endfor %}"
        for source in ("{{ 'x' * 10**10 }}", "{{ 'x' | center(99999999999) }}", "{{ '%099999999999d' % 1 }}",
                       "{% set n = namespace(x=[1]) %}{% for i in range(99999) %}{% set n.x = n.x + n.x %}{% endfor %}",
                       turns + "{{ 'x' * 999 * 999 * 999 if messages|length > 9 }}"):  # fmt: skip
            with self.subTest(source), self.assertRaisesRegex(chat_errors.Beyond, "^it takes more than 256 MB of memory$"):
                self.learn_source(source)
        self.assertEqual(resource.getrlimit(resource.RLIMIT_AS), limit)

    def test_numbers_that_take_all_time_are_refused(self):
        squares = "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}"
        for source in ("{{ 9 ** (9 ** 9) }}", squares):
            with self.subTest(source), self.assertRaisesRegex(chat_errors.Beyond, "rejects every conversation: a number of more than"):
                self.learn_source(source)


class EndTokens(Case):
    def test_all_end_tokens_stop(self):
        """Those of generation_config.json, a list, and the one that ends the template's answers."""
        made = make_tokenizer("chatml", "<|im_start|><|im_end|>")
        t = ours(made)
        more = {"generation": keys.pack({"end_tokens": [1, 2]}), "chat": keys.pack({"name": "chatml", "builtin": 1})}
        with self.open(weights_file(self.dir / "m.bin", t, more), t) as e:
            ends = [i for i in range(len(t.tokens)) if e.lib.tern_token_is_end(e.model, i)]
            self.assertEqual(ends, [1, 2, made.token_to_id("<|im_end|>")])
            self.assertEqual(e.chat_info().end, made.token_to_id("<|im_end|>"))


if __name__ == "__main__":
    unittest.main()
