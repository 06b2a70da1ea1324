/* A timeline: a lane for each thread, a slice for each span; drag or arrow keys move, wheel or + and -
 * zoom. Below, where the time went. */

const OPS = [...new Set(data.spans.map((s) => s[0]))];
const HUES = [210, 30, 130, 280, 0, 60, 180, 330];
const LANE = 56;
const spans = data.spans.map(([op, layer, thread, begin, length, wait, bytes, ...note]) => ({ op, layer, thread, begin, length, wait, bytes, note }));
const END = spans.reduce((a, s) => Math.max(a, s.begin + s.length + s.wait), 1);

function color(op, layer) {
  const light = (isDark() ? 34 : 58) + (layer % 2) * 10;
  return `hsl(${HUES[OPS.indexOf(op) % HUES.length]} 55% ${light}%)`;
}

function words(s) {
  const where = s.layer < data.n_layers ? `layer ${s.layer}` : "outside of the layers";
  const [kv, kvs, row, rows, block, blocks] = s.note;
  const attention = s.note.length ? `; KV heads ${kv} to ${kv + kvs - 1}, rows ${row} to ${row + rows - 1}, blocks ${block} to ${block + blocks - 1}` : "";
  return `${s.op}, ${where}, thread ${s.thread}: ${s.length.toFixed(1)} µs, then ${s.wait.toFixed(1)} µs of waiting; ${s.bytes.toLocaleString("en")} bytes${attention}`;
}

class Lanes {
  constructor() {
    this.canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": "what each thread did over time; the table below has the sums",
      style: "width:100%;touch-action:none" });
    this.about = element("p", { id: "about", "aria-live": "polite", class: "about" }, "Point at a slice. Drag to move, wheel or + and - to zoom, arrow keys move.");
    this.from = 0;
    this.to = END;
    let grabbed = null;
    this.canvas.addEventListener("pointerdown", (e) => { grabbed = [e.clientX, this.from, this.to]; this.canvas.setPointerCapture(e.pointerId); });
    this.canvas.addEventListener("pointerup", () => { grabbed = null; });
    this.canvas.addEventListener("pointermove", (e) => {
      if (!grabbed) return this.point(e);
      const by = ((grabbed[0] - e.clientX) / this.canvas.clientWidth) * (grabbed[2] - grabbed[1]);
      this.show(grabbed[1] + by, grabbed[2] + by);
    });
    this.canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(e.deltaY < 0 ? 0.7 : 1.4, e.offsetX / this.canvas.clientWidth); }, { passive: false });
    this.canvas.addEventListener("keydown", (e) => {
      const span = this.to - this.from, step = { ArrowLeft: -0.2, ArrowRight: 0.2 }[e.key];
      if (step) this.show(this.from + step * span, this.to + step * span);
      else if (e.key === "+" || e.key === "-") this.zoom(e.key === "+" ? 0.5 : 2, 0.5);
      else if (e.key === "Home") this.show(0, END);
      else return;
      e.preventDefault();
    });
    addEventListener("resize", () => this.draw());
    onTheme.push(() => this.draw());
  }

  zoom(by, at) {
    const middle = this.from + at * (this.to - this.from);
    this.show(middle - (middle - this.from) * by, middle + (this.to - middle) * by);
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, 2), END);
    this.from = Math.max(0, Math.min(from, END - span));
    this.to = this.from + span;
    this.draw();
  }

  at(x) {
    return this.from + (x / this.canvas.clientWidth) * (this.to - this.from);
  }

  point(e) {
    const time = this.at(e.offsetX), thread = Math.floor((e.offsetY - 20) / LANE);
    const found = spans.find((s) => s.thread === thread && s.begin <= time && time < s.begin + s.length + s.wait);
    if (found) this.about.textContent = words(found);
  }

  draw() {
    const ratio = Math.min(devicePixelRatio || 1, 2), wide = this.canvas.clientWidth || 800, high = 20 + LANE * data.n_threads;
    this.canvas.width = wide * ratio;
    this.canvas.height = high * ratio;
    this.canvas.style.height = `${high}px`;
    const c = this.canvas.getContext("2d"), scale = wide / (this.to - this.from);
    c.scale(ratio, ratio);
    c.font = "11px ui-monospace, Menlo, monospace";
    c.textBaseline = "middle";
    const marks = Math.max(2, Math.min(8, Math.floor(wide / 90)));
    c.fillStyle = style("--soft");
    for (let i = 0; i < marks; i++)
      c.fillText(`${(this.at((i * wide) / marks) / 1000).toFixed(3)} ms`, (i * wide) / marks + 2, 9);
    for (const s of spans) {
      const x = (s.begin - this.from) * scale, w = s.length * scale, y = 20 + s.thread * LANE;
      if (x + w + s.wait * scale < 0 || x > wide) continue;
      c.fillStyle = color(s.op, s.layer);
      c.fillRect(x, y, Math.max(w, 0.5), LANE - 6);
      c.fillStyle = style("--line");
      c.fillRect(x + w, y + LANE / 2 - 4, s.wait * scale, 2);
      if (w > 44) {
        c.save();
        c.beginPath();
        c.rect(x, y, w, LANE - 6);
        c.clip();
        c.fillStyle = isDark() ? "#fff" : "#000";
        c.fillText(s.op, x + 3, y + 14);
        if (s.layer < data.n_layers) c.fillText(`layer ${s.layer}`, x + 3, y + 30);
        c.restore();
      }
    }
  }
}

function sums() {
  const by = new Map(OPS.map((op) => [op, { time: 0, wait: 0, bytes: 0, n: 0 }]));
  for (const s of spans) {
    const t = by.get(s.op);
    t.time += s.length; t.wait += s.wait; t.bytes += s.bytes; t.n++;
  }
  const all = [...by.values()].reduce((a, t) => a + t.time + t.wait, 0);
  return element("table", {}, headings("operation", "share", "work, ms", "waiting, ms", "spans", "MB"),
    element("tbody", {}, ...[...by].sort((a, b) => b[1].time - a[1].time).map(([op, t]) => element("tr", {},
      element("th", { scope: "row" }, element("span", { style: `color:${color(op, 0)}` }, "■ "), op),
      ...[`${((100 * (t.time + t.wait)) / all).toFixed(1)}\u00a0%`, (t.time / 1000).toFixed(3), (t.wait / 1000).toFixed(3), t.n, (t.bytes / 1e6).toFixed(2)].map((v) => element("td", {}, String(v)))))));
}

function start() {
  const lanes = new Lanes();
  document.body.prepend(pageHeader("Timeline", element("span", { class: "soft" },
    `${data.model}: ${data.tokens} tokens, ${data.n_threads} threads, ${(END / 1000).toFixed(3)} ms${data.lost ? `; ${data.lost} later spans left out` : ""}`)));
  document.body.append(element("main", {}, lanes.about, lanes.canvas, element("h2", {}, "Where the time went"), sums(),
    element("p", { class: "soft" }, "A lane is a thread. A slice is one thread's share of an operation; the thin line after it is waiting for the others.")));
  lanes.draw();
}

start();
