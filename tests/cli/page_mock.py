"""A server that answers the page as it is told: odd tokens, refusals, streams that break.

In:  scripts, one for each request. Out: what the page asked for.
"""

import base64
import codecs
import json
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def token(text: str | bytes, number: int = 7, logprob: float = -0.1, others=((" other", 8, -1.5), (" third", 9, -2.5))) -> dict:
    """An entry of logprobs.content. A control token is one in angle brackets with bars."""

    def entry(text, number, logprob):
        raw = text.encode() if isinstance(text, str) else text
        name = raw.decode(errors="replace")
        return {"token": name, "bytes": [] if name.startswith("<|") else list(raw), "id": number, "logprob": logprob}

    return entry(text, number, logprob) | {"top_logprobs": [entry(text, number, logprob), *(entry(*o) for o in others)]}


def words(text: str, logprob: float = -0.1) -> list[dict]:
    """A token of each word with the blank before it."""
    parts = text.replace(" ", "\0 ").split("\0")
    return [token(part, 100 + i, logprob) for i, part in enumerate(parts)]


class Script:
    """One answer: tokens of a thought and of a text, or a refusal."""

    def __init__(self, text=(), thought=(), *, status=200, message="", code=None, headers=None, pause=0.0, broken=False, each=1, reason="stop"):
        self.text, self.thought, self.status, self.message, self.headers = list(text), list(thought), status, message, headers or {}
        self.pause, self.broken, self.each, self.reason, self.code = pause, broken, each, reason, code


class Mock:
    """The server, on a port of its own. `page`: the answer to GET /, as headers and body. To be closed."""

    def __init__(self, page: tuple[dict, bytes]):
        self.page, self.scripts, self.asked, self.stopped = page, [], [], 0
        self.props = {"model_alias": "mock", "n_ctx": 4096, "thinking": 1, "attention_heads": [2, 0, 3]}
        self.looks = []  # what /attention was asked
        self.key, self.gone = None, False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.get(self)

            def do_POST(self):
                outer.post(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    # ---- answers ----

    @staticmethod
    def reply(to, status: int, body: bytes, headers: dict) -> None:
        to.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(body)

    def refuse(self, to, status: int, message: str, headers: dict, code: str | None = None) -> None:
        body = json.dumps({"error": {"message": message, "type": "x", "code": code, "param": None}}).encode()
        self.reply(to, status, body, {"Content-Type": "application/json"} | headers)

    def has_key(self, to) -> bool:
        return not self.key or to.headers.get("Authorization") == f"Bearer {self.key}"

    def get(self, to) -> None:
        if to.path == "/":
            self.reply(to, 200, self.page[1], self.page[0])
        elif to.path != "/props":
            self.refuse(to, 404, "no such path", {})
        elif self.has_key(to):
            self.reply(to, 200, json.dumps(self.props).encode(), {"Content-Type": "application/json"})
        else:
            self.refuse(to, 401, "a key is needed", {})

    def post(self, to) -> None:
        body = json.loads(to.rfile.read(int(to.headers["Content-Length"])))
        if to.path in ("/apply-template", "/attention"):
            return self.look(to, body)
        self.asked.append(body)
        if self.gone:
            to.close_connection = True
            return None
        if not self.has_key(to):
            return self.refuse(to, 401, "a key is needed", {})
        script = self.scripts.pop(0) if self.scripts else Script(status=500, message="the test has no script for this")
        if script.status != 200:
            return self.refuse(to, script.status, script.message, script.headers, script.code)
        to.send_response(200)
        to.send_header("Content-Type", "text/event-stream")
        to.send_header("Connection", "close")
        to.end_headers()
        try:
            self.stream(to.wfile, script)
        except OSError:
            self.stopped += 1
        to.close_connection = True
        return None

    def look(self, to, body: dict) -> None:
        """A prompt of three tokens, to the last of which all heads but the first attend alike."""
        if to.path == "/apply-template":
            answer = {"prompt": "", "tokens": [1, 2, 3]}
        else:
            self.looks.append(body)
            n = len(body["tokens"])
            rows = [[1 / n] * n, *([0.5 if j == 2 else 0.5 / (n - 1) for j in range(n)] for _ in range(self.props["attention_heads"][body["layer"]] - 1))]
            rows = rows[body["head"] :][:1] if "head" in body else rows
            pieces = ["<|im_start|>", "Go", "\n", "The", " cat", [240, 159], " end"][:n]
            answer = {"layer": body["layer"], "n_heads": len(rows), "n_tokens": n,
                      "weights": base64.b64encode(struct.pack(f"<{n * len(rows)}f", *sum(rows, []))).decode(),
                      "tokens": [{"id": i, "piece": p} for i, p in zip(body["tokens"], pieces)]}  # fmt: skip
        self.reply(to, 200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def stream(self, out, script: Script) -> None:
        def send(delta: dict, entries=(), reason=None, **more) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": {"content": list(entries)} if entries else None}
            out.write(b": ping\n\ndata: " + json.dumps({"choices": [choice]} | more).encode() + b"\n\n")
            out.flush()

        send({"role": "assistant", "content": ""})
        for field, tokens in (("reasoning_content", script.thought), ("content", script.text)):
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            for i in range(0, len(tokens), script.each):
                part = tokens[i : i + script.each]
                text = "".join(decoder.decode(bytes(t["bytes"])) for t in part)
                send({field: text} if text else {}, part)
                time.sleep(script.pause)
        if script.broken:
            return
        send({}, reason=script.reason)
        n = len(script.text) + len(script.thought)
        usage = {"prompt_tokens": 12, "completion_tokens": n, "total_tokens": 12 + n, "prompt_tokens_details": {"cached_tokens": 4}}
        out.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
