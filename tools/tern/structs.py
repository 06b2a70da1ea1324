"""The structs and calls of include/tern.h and tern_lab.h, for ctypes. tests/cli/test_model.py holds them to the headers."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_ubyte, c_uint, c_uint32, c_uint64, c_void_p

ROWS = 32  # TERN_DEFAULT_LOGITS
WANTS_LOGITS, WANTS_HIDDEN = 1, 2  # flags of a batch row
ADD_SPECIAL, PARSE_SPECIAL = 1, 2
CHAT_GENERATE, CHAT_THINK, CHAT_NO_THINK = 1, 2, 4
COPY, LOCK, MTP = 1, 2, 4  # tern_model_params.load
CANCELLED = 7
CACHE_TYPES = ("f16", "f32", "q8")  # enum tern_cache_type
TYPES = ("f32", "f16", "bf16", "q8", "q4", "q4c")  # enum tern_type
STAGES = ("raw", "scaled", "masked", "weights", "unmasked")  # enum tern_attention_stage
CONSTRAINTS = ("json", "schema", "regex", "grammar", "choice")  # enum tern_constraint_kind
COMPACT, ANNOTATE, LAX, ANY_ORDER, FROM_TRIGGER, MUST_TRIGGER = 1, 2, 4, 8, 16, 32
STOPS = ("end", "length", "context", "string", "cancelled", "complete", "dead end")  # enum tern_stop_reason
FLOATS = POINTER(c_float)
ASK = ctypes.CFUNCTYPE(c_int, c_void_p)


class Error(ctypes.Structure):
    """struct tern_error"""

    _fields_ = [("code", c_int), ("text", ctypes.c_char * 512)]

    @property
    def sentence(self) -> str:
        return self.text.decode(errors="replace")  # the name of a file may be cut


class ModelParams(ctypes.Structure):
    """struct tern_model_params"""

    _fields_ = [("n_threads", c_int), ("cpu", c_char_p), ("load", c_uint), ("stop", ASK), ("arg", c_void_p)]
    _fields_ += [("constraint_bytes", c_size_t), ("make_room", ASK)]


class ModelInfo(ctypes.Structure):
    """struct tern_model_info"""

    _fields_ = [(n, c_uint64) for n in "n_layers dim vocab n_heads n_kv_heads head_dim hidden max_seq window".split()]
    _fields_ += [(n, c_uint64) for n in "n_params file_bytes token_bytes content_id".split()] + [("type", c_int)]
    _fields_ += [(n, c_char_p) for n in "_type_name name source licence converter cpu".split()]
    _fields_ += [("n_threads", c_int), ("threads_why", c_char_p), ("bos", c_int32)]
    _fields_ += [("has_chat", c_int), ("is_sealed", c_int), ("has_mtp", c_int)]

    @property
    def type_name(self) -> str:
        return self._type_name.decode()


class LayerInfo(ctypes.Structure):
    """struct tern_layer_info"""

    _fields_ = [(n, c_uint64) for n in "n_heads n_kv_heads head_dim hidden window n_experts n_experts_used kv_rank rope_dims".split()]
    _fields_ += [("attn_scale", c_float), ("attn_cap", c_float)]
    _fields_ += [("sinks", FLOATS), ("alibi", FLOATS)]
    _fields_ += [(n, c_int) for n in "parallel gated qk_norm attn_post_norm ffn_post_norm".split()]
    _fields_ += [("qkv_clipped", c_int), ("learned_positions", c_int), ("mixer", c_uint), ("attn_gate", c_int)]
    _fields_ += [("chunked", c_int), ("kv_shared", c_int)]


class Row(ctypes.Structure):
    """struct tern_row"""

    _fields_ = [("seq", c_uint32), ("position", c_uint32), ("token", c_int32), ("flags", c_uint)]


class RawObservation(ctypes.Structure):
    """struct tern_observation"""

    _fields_ = [("layer", c_uint64), ("operation", c_char_p), ("rows", c_size_t)]
    _fields_ += [("columns", c_size_t), ("values", FLOATS), ("stride", c_size_t)]
    _fields_ += [("at", POINTER(Row)), ("expert", c_uint64)]


OBSERVE = ctypes.CFUNCTYPE(None, c_void_p, POINTER(RawObservation))
EDIT = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(RawObservation), FLOATS)
# enum tern_term_kind
TERMS = tuple("embed position head o_bias attn_norm ffn expert shared ffn_norm final_norm bias round_o round_down round_head edits ple laurel".split())


class RawTerm(ctypes.Structure):
    """struct tern_term"""

    _fields_ = [("kind", c_int), ("layer", c_uint64), ("index", c_uint64), ("value", c_float)]


class ContextParams(ctypes.Structure):
    """struct tern_context_params"""

    _fields_ = [(name, c_uint32) for name in ("n_ctx", "n_batch", "n_seqs")]
    _fields_ += [("cache_type", c_int), ("fingerprint", c_int), ("n_logits", c_uint32), ("prefix_bytes", c_uint64)]


class Memory(ctypes.Structure):
    """struct tern_memory"""

    _fields_ = [(name, c_uint64) for name in ("weights", "cache", "batch", "available")]
    _fields_ += [(name, c_uint32) for name in ("n_ctx", "n_batch", "n_seqs")]
    _fields_ += [("reduced", c_int), ("cache_type", c_int), ("fingerprint", c_int)]
    _fields_ += [("states", c_uint64), ("n_snapshots", c_uint32), ("n_logits", c_uint32), ("prefix", c_uint64)]

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.batch


class Cost(ctypes.Structure):
    """struct tern_cost"""

    _fields_ = [(name, c_uint64) for name in ("weight_bytes", "cache_bytes", "matmul_macs", "attention_macs")]


class AttentionParams(ctypes.Structure):
    """struct tern_attention_params"""

    _fields_ = [("seq", c_uint32), ("n_positions", c_uint32), ("layers", POINTER(c_ubyte))]
    _fields_ += [("window", c_uint64), ("bidirectional", c_int), ("sinks", c_int), ("last", c_int)]


class Call(ctypes.Structure):
    """struct tern_call"""

    _fields_ = [("id", c_char_p), ("name", c_char_p), ("arguments", c_char_p)]


class ChatMessage(ctypes.Structure):
    """struct tern_chat_message"""

    _fields_ = [("role", c_char_p), ("text", c_char_p), ("bytes", c_size_t)]
    _fields_ += [("tokens", POINTER(c_int32)), ("n_tokens", c_size_t)]
    _fields_ += [("calls", POINTER(Call)), ("n_calls", c_size_t), ("call_id", c_char_p), ("name", c_char_p)]


class ChatInfo(ctypes.Structure):
    """struct tern_chat_info"""

    _fields_ = [("name", c_char_p), ("thinking", c_int), ("takes_system", c_int)]
    _fields_ += [("end", c_int32), ("stop", c_char_p), ("thought_begin", c_void_p), ("thought_end", c_void_p)]
    _fields_ += [("thought_begin_bytes", c_size_t), ("thought_end_bytes", c_size_t), ("takes_tools", c_int)]

    @property
    def marks(self) -> tuple[str, str]:
        """What begins and ends a thought."""
        begin = ctypes.string_at(self.thought_begin, self.thought_begin_bytes)
        return begin.decode(), ctypes.string_at(self.thought_end, self.thought_end_bytes).decode()


class ZooArrays(ctypes.Structure):
    """struct tern_zoo"""

    _fields_ = [(n, c_size_t) for n in "n_seqs n_rows n_keys n_heads n_kv_heads head_dim v_dim".split()]
    _fields_ += [(n, FLOATS) for n in "q k v out weights".split()] + [("scale", c_float), ("cap", c_float)]
    _fields_ += [("bidirectional", c_int), ("window", c_size_t), ("sinks", FLOATS)]
    _fields_ += [("alibi", FLOATS), ("first", c_size_t)]
    _fields_ += [("mask", POINTER(c_ubyte)), ("block", c_size_t), ("parts", c_size_t)]
    _fields_ += [("beta", FLOATS), ("latent_dim", c_size_t), ("rope_dim", c_size_t)]
    _fields_ += [("up_k", FLOATS), ("up_v", FLOATS)]


class ZooCost(ctypes.Structure):
    """struct tern_zoo_cost"""

    _fields_ = [("seconds", c_double)] + [(n, c_uint64) for n in ("bytes", "macs", "scratch_bytes")]


class Bias(ctypes.Structure):
    """struct tern_bias"""

    _fields_ = [("token", c_int32), ("value", c_float)]


class SamplerParams(ctypes.Structure):
    """struct tern_sampler_params"""

    _fields_ = [("temperature", c_float), ("top_k", c_uint32), ("top_p", c_float), ("min_p", c_float), ("repeat_penalty", c_float)]
    _fields_ += [("repeat_last_n", c_uint32), ("seed", c_uint64)]
    _fields_ += [(n, c_float) for n in "frequency_penalty presence_penalty typical_p top_n_sigma xtc_probability xtc_threshold".split()]
    _fields_ += [("dry_multiplier", c_float), ("dry_base", c_float), ("dry_allowed_length", c_uint32), ("dry_last_n", c_uint32)]
    _fields_ += [("dry_breakers", POINTER(c_char_p)), ("n_dry_breakers", c_size_t), ("mirostat", c_uint32)]
    _fields_ += [("mirostat_tau", c_float), ("mirostat_eta", c_float), ("mu", FLOATS)]
    _fields_ += [("bias", POINTER(Bias)), ("n_bias", c_size_t), ("order", c_ubyte * 10)]
    _fields_ += [("constraint", c_void_p)]


ON_TEXT = ctypes.CFUNCTYPE(c_int, c_void_p, c_int32, POINTER(c_ubyte), c_size_t)
ON_TOKEN = ctypes.CFUNCTYPE(c_int, c_void_p, c_int32, FLOATS)
ON_PROMPT = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t)


class GenerateParams(ctypes.Structure):
    """struct tern_generate_params"""

    _fields_ = [("seq", c_uint32), ("prompt", c_char_p), ("prompt_bytes", c_size_t), ("tokenize_flags", c_uint)]
    _fields_ += [("tokens", POINTER(c_int32)), ("n_tokens", c_size_t), ("n_predict", c_int64), ("ignore_end", c_int)]
    _fields_ += [("logits_all", c_int), ("fingerprint", c_int), ("shift", c_int), ("keep", c_uint32), ("sampler", POINTER(SamplerParams))]
    _fields_ += [("constraint", c_void_p), ("no_force", c_int), ("constraint_steps", c_uint64), ("lookup", c_uint32)]
    _fields_ += [("draft", c_void_p), ("draft_seq", c_uint32), ("draft_max", c_uint32), ("mtp", c_uint32)]
    _fields_ += [("stop", POINTER(c_char_p)), ("n_stop", c_size_t)]
    _fields_ += [("on_text", ON_TEXT), ("on_token", ON_TOKEN), ("on_prompt", ON_PROMPT), ("arg", c_void_p)]


class GenerateResult(ctypes.Structure):
    """struct tern_generate_result"""

    _fields_ = [("n_prompt", c_size_t), ("n_generated", c_size_t), ("prompt_seconds", c_double), ("generate_seconds", c_double)]
    _fields_ += [("reason", c_int)] + [(n, c_size_t) for n in "n_steps n_drafted n_accepted n_shifts n_shifted".split()]
    _fields_ += [("shift_seconds", c_double), ("n_again", c_size_t), ("last", c_int32), ("n_forced", c_size_t)]
    _fields_ += [("fingerprint", c_uint64), ("n_fingerprinted", c_uint64)]


class ReceiptParams(ctypes.Structure):
    """struct tern_receipt_params"""

    _fields_ = [("prompt", POINTER(c_int32)), ("n_prompt", c_size_t), ("answer", POINTER(c_int32)), ("n_answer", c_size_t)]
    _fields_ += [("generate", POINTER(GenerateParams)), ("constraint", c_void_p), ("result", POINTER(GenerateResult)), ("cache_type", c_int)]


class ReceiptVerdict(ctypes.Structure):
    """struct tern_receipt_verdict"""

    _fields_ = [("holds", c_int), ("n_tokens", c_size_t), ("first_wrong", c_size_t), ("claimed", c_int32), ("found", c_int32)]
    _fields_ += [("seconds", c_double), ("why", ctypes.c_char * 256)]


class RawReport(ctypes.Structure):
    """struct tern_quantize_report"""

    _fields_ = [("name", c_char_p), ("from", c_int), ("to", c_int)]
    _fields_ += [(n, c_uint64) for n in ("bytes_in", "bytes_out", "done", "total", "weights")]
    _fields_ += [("rmse", c_double), ("max_error", c_double)]


class ConstraintParams(ctypes.Structure):
    """struct tern_constraint_params"""

    _fields_ = [("kind", c_int), ("text", c_char_p), ("bytes", c_size_t), ("flags", c_uint), ("max_bytes", c_size_t)]
    _fields_ += [("max_steps", c_uint64), ("trigger", c_char_p), ("trigger_bytes", c_size_t)]
    _fields_ += [("tool_choice", c_char_p), ("chat_flags", c_uint)]


REPORT = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(RawReport))

class QuantizeParams(ctypes.Structure):
    """struct tern_quantize_params"""

    _fields_ = [("type", c_int), ("n_threads", c_int), ("cpu", c_char_p), ("keep_q8", c_char_p), ("text", c_char_p)]
    _fields_ += [("text_bytes", c_size_t), ("report", REPORT), ("arg", c_void_p), ("stop", ASK)]


_CALLS = {  # name: (result, arguments); those that return a status are int
    "tern_seq_length": (c_uint32, c_void_p, c_uint32),
    "tern_seq_keep": (c_uint32, c_void_p, c_uint32, c_uint32),
    "tern_seq_fork": (c_uint32, c_void_p, c_uint32, c_uint32, c_uint32),
    "tern_seq_reuse": (c_uint32, c_void_p, c_uint32, POINTER(c_int32), c_size_t),
    "tern_seq_expect": (None, c_void_p, c_uint32, c_uint32),
    "tern_seq_tokens": (POINTER(c_int32), c_void_p, c_uint32),
    "tern_logits": (FLOATS, c_void_p, c_size_t),
    "tern_hidden": (FLOATS, c_void_p, c_size_t),
    "tern_sampler_defaults": (SamplerParams, c_void_p),
    "tern_sample": (c_int32, c_void_p, POINTER(SamplerParams), c_void_p, c_void_p, c_size_t, c_uint64),
    "tern_logprob": (c_double, c_void_p, c_void_p, c_int32),
    "tern_fingerprint": (c_uint64, c_void_p, POINTER(c_uint64)),
    "tern_chat_builtin": (c_char_p, c_size_t),
    "tern_chat_opening": (c_size_t, c_void_p, c_uint, c_char_p, c_size_t),
    "tern_generate_defaults": (GenerateParams,),
    "tern_decoder_push": (c_void_p, c_void_p, c_int32, POINTER(c_size_t)),
    "tern_decoder_finish": (c_void_p, c_void_p, POINTER(c_size_t)),
    "tern_decoder_bytes": (c_void_p, c_void_p, c_int32, POINTER(c_size_t)),
    "tern_constraint_close": (None, c_void_p),
    "tern_constraint_left_out": (c_char_p, c_void_p, c_size_t),
    "tern_constraint_state_close": (None, c_void_p),
    "tern_constraint_rollback": (c_size_t, c_void_p, c_size_t),
    "tern_constraint_can_end": (c_int, c_void_p),
    "tern_constraint_is_over": (c_int, c_void_p),
    "tern_quantize_types": (c_char_p,),
    "tern_zoo_name": (c_char_p, c_size_t),
    "tern_zoo_paper": (c_char_p, c_size_t),
}


def declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    """The library, with the types of the calls that do not return a status."""
    for name, (result, *arguments) in _CALLS.items():
        call = getattr(lib, name)
        call.restype, call.argtypes = result, arguments
    return lib
