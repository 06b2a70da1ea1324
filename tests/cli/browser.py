"""Headless Chromium, driven through the DevTools protocol: pages opened, clicked, typed at, measured.

In:  files, or addresses. Out: what a page answers, and its faults: errors on the console, and requests that leave the
     file or the address.
"""

import base64
import copy
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

try:
    import websocket
except ImportError:
    websocket = None

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
LACKS = None if CHROMIUM and websocket else "chromium is not installed" if websocket else "the package websocket-client is not installed"
PATIENCE = 30  # seconds until a page must have got there
CONTROL = 2  # of key(): Ctrl is held
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
        "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip


class Browser:
    """One Chromium with one tab. To be closed."""

    def __init__(self):
        self.events: list[dict] = []
        self.number, self.session = 0, None
        try:
            port = self.start()
        except TimeoutError:  # one in some hundred does not get up
            self.stop()
            port = self.start()
        number, path = port.read_text().split()
        self.socket = websocket.create_connection(f"ws://127.0.0.1:{number}{path}", timeout=PATIENCE, max_size=None)
        self.attach()
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def attach(self) -> None:
        """Opens a tab, to which commands go from now on."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def tab(self) -> "Browser":
        """Another tab of the same process, with the same store and list of events. To be closed with call("Page.close")."""
        other = copy.copy(self)
        other.attach()
        return other

    def start(self) -> Path:
        """A process; the file that says where it listens."""
        self.folder = Path(tempfile.mkdtemp(prefix="tern-browser-"))
        self.downloads = self.folder / "downloads"
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--remote-allow-origins=*",
             "--disable-background-networking", "--disable-dev-shm-usage",
             "--disable-features=IsolateSandboxedIframes",  # frames tell their events here, too
             f"--user-data-dir={self.folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        port = self.folder / "DevToolsActivePort"
        self.wait(lambda: port.exists() and port.read_text().count("\n"))
        return port

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        self.socket.close()
        self.stop()

    @staticmethod
    def wait(condition) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("the page did not get there")
            time.sleep(0.01)

    def call(self, method: str, **params):
        """A command's answer. Events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        self.socket.send(json.dumps(message | ({"sessionId": self.session} if self.session else {})))
        while (answer := json.loads(self.socket.recv())).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    # ---- pages ----

    def open(self, page: Path | str, width: int = 1200, dark: bool = False, height: int = 900, mark: str = "", left: bool = True) -> None:
        """Loads a file or an address, at `width` pixels. `left`: the page before is left first, and a page that differs in its mark alone
        is loaded, too; that takes a new process."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if left:
            self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.own = page if isinstance(page, str) else page.resolve().as_uri()
        self.call("Page.navigate", url=self.own + mark)
        self.until("document.readyState === 'complete'")

    def frames(self) -> list[int]:
        """What js() takes as `frame`, of each frame in the page."""
        main = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        made = [e["params"]["context"] for e in self.events if e["method"] == "Runtime.executionContextCreated"]
        return [c["id"] for c in made if c["auxData"]["frameId"] != main and c["auxData"]["isDefault"]]

    def js(self, code: str, frame: int | None = None):
        """The value of an expression, or of the promise that it is."""
        where = {"contextId": frame} if frame else {}
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, **where)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{code}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def until(self, code: str) -> None:
        self.wait(lambda: self.js(f"!!({code})"))

    def text(self, selector: str) -> str:
        return self.js(f"document.querySelector({json.dumps(selector)}).textContent")

    def count(self, selector: str) -> int:
        return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")

    # ---- hands ----

    def point(self, selector: str, x: float = 0.5, y: float = 0.5, click: bool = False) -> None:
        """Moves the mouse to a place of an element, in shares of its size."""
        box = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        at = {"x": box[0] + box[2] * x, "y": box[1] + box[3] * y}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        self.point(selector, x, y, click=True)

    def key(self, key: str, held: int = 0) -> None:
        code = {"windowsVirtualKeyCode": KEYS.get(key, ord(key[0])), "modifiers": held}
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def downloaded(self, name: str) -> bytes:
        file = self.downloads / name
        self.wait(lambda: file.exists() and file.stat().st_size)  # empty until its content is put there
        return file.read_bytes()

    def screenshot(self, path: Path) -> None:
        """The whole page."""
        self.js("new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    # ---- faults ----

    def faults(self, refusals: tuple = ()) -> list[str]:
        """What went wrong since the page was opened, without log entries with the texts of `refusals`."""
        self.js("new Promise((f) => setTimeout(f))")
        found = []
        for event in self.events:
            kind, what = event["method"], event["params"]
            if kind == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"]["exception"].get("description", "an exception"))
            elif kind == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(f"console: {what['args']}")
            elif kind == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning") and what["entry"]["text"] not in refusals:
                found.append(f"log: {what['entry']['text']}")
            elif kind == "Network.requestWillBeSent":
                url = what["request"]["url"]
                if not url.startswith((self.own, "data:", "blob:")):
                    found.append(f"asked for {url}")
        return found
