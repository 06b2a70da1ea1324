"""A plugin of pytest that runs llama.cpp's tests of its server, tools/server/tests, against serve.

    pip install -r LLAMA/requirements.txt
    PYTHONPATH=tests/support pytest -p llama_server -m "not slow" -rx LLAMA

LLAMA is that folder, of llama.cpp's source or of the one in Python's llama-cpp-python. What serve does not have is skipped. What it has
in another form may fail, each with its reason. Everything else must pass. Where tests ask llama-server's own /completion,
/v1/completions is asked instead, and the answer written as llama-server would.
"""

import os
import socket
from pathlib import Path

import pytest

LACKS = {
    "compat_gcp": "Google's form of requests", "infill": "/infill", "kv_keep": "a log with marks for tests", "lora": "LoRA at run time", "mcp_servers": "MCP",
    "proxy": "a proxy", "rerank": "reranking", "router": "several models", "slot_save": "slots that are saved one by one", "sleep": "a server that unloads",
    "stream": "streams that are taken up again", "tools_builtin": "tools of the server", "vision_api": "images",
}  # fmt: skip
WORDS = "asks for words, token counts or the template of its own model"
OWN = "a field or setting of llama-server alone"
DIFFERS = {
    "mutual_exclusion": "continue_final_message wins over add_generation_prompt",
    "messages7": "a history is never refused: two answers in a row are joined",
    "timings_per_token": "the first piece of a stream has the role and the first text",
    "logprobs_stream": "the first piece of a stream has the role and the first text",
    "test_cors": "no origin is allowed without --cors, and --cors takes whole origins",
    "tool_result_with_image": "an image in the result of a tool is left out, and the answer says so",
    "empty_messages": "no messages are 400, as with Anthropic",
}
OTHERS = {
    WORDS: "test_chat_completion[ response_format1 cached_tokens test_chat_completion_stream[ with_openai_library apply_chat_template load_split tokenize_with_bos thinking_history "
           "prompt_cache test_completion[ test_completion_stream[ ctx_shift test_reasoning date_inside add_generation slot_ctx test_multi_requests_parallel",
    OWN: "multiple_addresses server_props server_slots no_ui aliases_and_tags chat_template assistant_prefill continue_final context_size_exceeded return_progress "
         "token_count verbose_debug static_assets proxy_only local_media ignore_eos mixed_input content_text_same pooling_none prompt_too_long vision telemetry "
         "stream_vs no_mtmd tokens_input n_probs logit_bias[False-True] response_fields test_metrics with_and_without_draft test_synth",
}  # fmt: skip


def reason(name: str) -> str | None:
    for word, why in DIFFERS.items():
        if word in name:
            return why
    return next((why for why, words in OTHERS.items() if any(word in name for word in words.split())), None)


def pytest_configure(config):
    del config
    os.environ["LLAMA_SERVER_BIN_PATH"] = str(Path(__file__).with_name("llama-server"))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ["PORT"] = str(s.getsockname()[1])


def pytest_collection_modifyitems(items):
    import utils  # llama.cpp's

    asked_as_completions(utils.ServerProcess)
    for item in items:
        item.module.download_file = lambda url, path=None: "draft"
        file = item.path.stem.removeprefix("test_")
        lacks = next((why for name, why in LACKS.items() if file.startswith(name)), None)
        why = reason(item.name)
        if lacks:
            item.add_marker(pytest.mark.skip(reason=lacks))
        elif why:
            item.add_marker(pytest.mark.xfail(reason=why))


# ---- /completion ----------------------------------------------------------------------------


def asked_as_completions(server) -> None:
    request, stream = server.make_request, server.make_stream_request

    def make_request(self, method, path, data=None, headers=None, **more):
        if path not in ("/completion", "/completions"):
            return request(self, method, path, data, headers, **more)
        answer = request(self, method, "/v1/completions", theirs(data), headers, **more)
        if answer.status_code == 200:
            answer.body = ours(answer.body, data)
        return answer

    def make_stream_request(self, method, path, data=None, headers=None, **more):
        own = path in ("/completion", "/completions")
        for piece in stream(self, method, "/v1/completions" if own else path, theirs(data) if own else data, headers, **more):
            if not own or piece.get("choices"):
                yield ours(piece, data) if own else piece

    server.make_request, server.make_stream_request = make_request, make_stream_request


def theirs(data: dict | None) -> dict:
    data = dict(data or {})
    n = data.pop("n_predict", -1)
    return data if n == -1 else {**data, "max_tokens": n}


def ours(body: dict, data: dict) -> dict | list:
    ends = {"length": "limit", "stop": "eos"}
    answers = [
        {
            "content": choice["text"], "stop": choice["finish_reason"] is not None, "stop_type": ends.get(choice["finish_reason"], "none"), "truncated": False,
            "has_new_line": "\n" in choice["text"], "tokens": choice.get("tokens", []), "timings": body.get("timings"),
        }
        for choice in body["choices"]
    ]  # fmt: skip
    return answers if isinstance(data["prompt"], list) and isinstance(data["prompt"][0], list) else answers[0]
