"""A server that answers as the Hugging Face hub does, from folders of this machine, with the faults that a test asks for.

Its API: /api/models/NAME[/revision/REV], /tree/REV, /api/models?search=, and /NAME/resolve/REV/FILE with HEAD, ranges, ETag, X-Repo-Commit. A
large file is answered by a redirect to /blob/..., as the hub redirects to another host.
"""

import hashlib
import json
import re
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".gguf", ".bin")


class Hub:
    """`with Hub({"owner/model": folder}) as hub:`; hub.endpoint goes into HF_ENDPOINT. Faults: see the fields."""

    def __init__(self, models: dict[str, Path], licence: str = "apache-2.0", server: ThreadingHTTPServer | None = None):
        self.models, self.licence = models, licence
        self.gated: set[str] = set()  # need the token "good"
        self.renamed: dict[str, str] = {}  # old name: new name
        self.busy = 0  # so many next requests get 429
        self.failing = 0  # so many next requests get 500
        self.cut = 0  # so many next transfers of whole large files, or of the rest of one, break in the middle
        self.hang = 0.0  # seconds before any answer
        self.slow = 0.0  # seconds before each KB of a whole large file
        self.only: set[str] = set()  # the tokens that are not refused; empty: all
        self.flip = 0  # so many next transfers of large files have a wrong byte
        self.requests: list[tuple[str, str, str]] = []  # method, path, Range
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.extra: list[str] = []  # names of files that it lists, too
        self.server = server or ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # of a client that has gone
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "Hub":
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.server_close()

    def sent(self) -> int:
        """How often the content of a large file was asked for."""
        return sum(path.startswith("/blob/") and method == "GET" for method, path, _ in self.requests)

    # ---- answers ----

    def answer(self, h: BaseHTTPRequestHandler) -> None:
        url = urllib.parse.urlsplit(h.path)
        path = urllib.parse.unquote(url.path)
        self.requests.append((h.command, path, h.headers.get("Range", "")))
        time.sleep(self.hang)
        if self.only and (token := h.headers.get("Authorization")) and token.removeprefix("Bearer ") not in self.only:
            return self.send(h, 401, b"", {"X-Error-Message": "Invalid credentials in Authorization header"})
        if self.busy:
            self.busy -= 1
            return self.send(h, 429, b"", {"Retry-After": "1"})
        if self.failing:
            self.failing -= 1
            return self.send(h, 500, b"")
        if path == "/api/models":
            found = urllib.parse.parse_qs(url.query).get("search", [""])[0].lower()
            return self.json(h, [{"id": n, "modelId": n} for n in self.models if found[:4] in n.lower()])
        if path.startswith("/blob/"):
            return self.blob(h, Path(path.removeprefix("/blob")))
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/(.+))?|/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if not found:
            return self.send(h, 404, b"")
        name, revision = found[1] or found[3], found[2] or found[4] or "main"
        if name in self.renamed:
            return self.send(h, 307, b"", {"Location": path.replace(name, self.renamed[name], 1)})
        refused = self.refused(h, name, revision)
        if refused:
            return self.send(h, refused[0], b"{}", {"X-Error-Code": refused[1], "X-Error-Message": "see the code"})
        if found[1]:
            return self.json(h, self.tree(name) if "/tree/" in path else self.info(name))
        self.file(h, name, found[5])

    def refused(self, h, name: str, revision: str) -> tuple[int, str] | None:
        token = h.headers.get("Authorization", "")
        if name not in self.models:
            return (404 if token else 401), "RepoNotFound"
        if revision not in ("main", COMMIT):
            return 404, "RevisionNotFound"
        if name in self.gated and "/resolve/" in h.path and token != "Bearer good":
            return (403 if token else 401), "GatedRepo"
        return None

    def info(self, name: str) -> dict:
        files = [p for p in sorted(self.models[name].rglob("*")) if p.is_file()]
        siblings = []
        for p in files:
            entry = {"rfilename": str(p.relative_to(self.models[name])), "size": p.stat().st_size, "blobId": self.etag(p, False)}
            if p.suffix in LARGE:
                entry["lfs"] = {"sha256": self.etag(p, True), "size": p.stat().st_size, "pointerSize": 134}
            siblings.append(entry)
        siblings += [{"rfilename": name, "size": 4, "blobId": "0" * 40} for name in self.extra]
        return {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "gated": name in self.gated and "auto",
                "private": False, "tags": [], "downloads": 1, "likes": 0, "cardData": {"license": self.licence}}  # fmt: skip

    def tree(self, name: str) -> list[dict]:
        return [
            {"type": "file", "path": f["rfilename"], "size": f["size"], "oid": f["blobId"]}
            | ({"lfs": {"oid": f["lfs"]["sha256"], "size": f["size"], "pointerSize": 134}} if "lfs" in f else {})
            for f in self.info(name)["siblings"]
        ]

    @staticmethod
    def etag(path: Path, large: bool) -> str:
        data = path.read_bytes()
        return hashlib.sha256(data).hexdigest() if large else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def file(self, h, name: str, file: str) -> None:
        path = self.models[name] / file
        if not path.is_file():
            return self.send(h, 404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        large = path.suffix in LARGE
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{self.etag(path, large)}"'}
        if not large:
            return self.send(h, 200, path.read_bytes(), headers)
        headers |= {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(path.stat().st_size)}
        self.send(h, 302, b"", headers | {"Location": f"http://localhost:{self.server.server_port}/blob{path.resolve()}"})

    def blob(self, h, path: Path) -> None:
        data = bytearray(path.read_bytes())
        if self.flip and h.command == "GET" and "Range" not in h.headers:
            self.flip -= 1
            data[-1] ^= 1
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", h.headers.get("Range", ""))
        begin = int(asked[1]) if asked else 0
        end = min(int(asked[2]) + 1 if asked and asked[2] else len(data), len(data))
        headers = {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"} if asked else {}
        part = bytes(data[begin:end])
        if self.cut and h.command == "GET" and not (asked and asked[2]):
            self.cut -= 1
            self.send(h, 206 if asked else 200, part[: len(part) * 3 // 4], headers, length=len(part))
            h.close_connection = True
            return h.connection.shutdown(2)
        self.send(h, 206 if asked else 200, part, headers)

    def json(self, h, value) -> None:
        self.send(h, 200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, h, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        h.send_response(status)
        for key, value in (headers or {}).items():
            h.send_header(key, value)
        h.send_header("Content-Length", str(len(body) if length is None else length))
        h.end_headers()
        if h.command == "HEAD":
            return
        step = 1024 if self.slow and len(body) > 100_000 else len(body) or 1
        for at in range(0, len(body), step):
            time.sleep(self.slow if step == 1024 else 0)
            h.wfile.write(body[at : at + step])
