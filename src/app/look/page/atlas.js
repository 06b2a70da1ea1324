/* The atlas: every head in little, a head whole, a row written out. A cell is computed when it is
 * looked at: s_ij = q_i . k_j from the file's q and k. */

const tokens = data.tokens.map(([id, text]) => text);
const N = tokens.length;
const STAGES = [
  { key: "raw", title: "scores q·k", note: "all keys, also those that come later", signed: true },
  { key: "scaled", title: "scaled", note: "", signed: true },
  { key: "masked", title: "after the mask", note: "hatched: may not be looked at", signed: true },
  { key: "weights", title: "after softmax", note: "", signed: false },
];
/* Beside them on demand */
const UNMASKED = { key: "unmasked", title: "softmax without the mask", note: "what each row would be if it saw all keys", signed: false };

/* ---- what may be looked at ---- */

/* In a layer w, row i may look at the keys beginOf .. endOf - 1 */
const beginOf = (w, i) => (w.window ? Math.max(0, i + 1 - w.window) : 0);
const endOf = (w, i) => {
  if (!data.bidirectional || i >= data.n_prompt) return i + 1; // a generated token sees none after it
  return w.window ? Math.min(data.n_prompt, i + w.window) : data.n_prompt;
};

/* Whether no token of a cell's row may look at a token of its column; cell c of `side` stands for the
 * positions c N / side to (c + 1) N / side - 1. */
function isMasked(w, side, row, column) {
  const first = (c) => Math.floor((c * N) / side), last = (c) => first(c + 1) - 1;
  return first(column) >= endOf(w, last(row)) || last(column) < beginOf(w, first(row));
}

/* ---- numbers of a whole head ---- */

class Head {
  constructor(entry) {
    this.entry = entry;
    this.layer = data.layers[entry.layer];
    const l = entry.layer, w = this.layer, kv = Math.floor(entry.head / (w.heads / w.kv_heads));
    this.d = w.head_dim;
    this.q = blob(`q${l}.${entry.head}`, Int16Array);
    this.qs = blob(`qs${l}.${entry.head}`, Float32Array);
    this.k = blob(`k${l}.${kv}`, Int16Array);
    this.ks = blob(`ks${l}.${kv}`, Float32Array);
    this.vs = blob(`vs${l}.${kv}`, Float32Array);
    this.slope = w.alibi ? w.alibi[entry.head] : null;
    this.sink = w.sinks ? w.sinks[entry.head] : null;
    this.rows = new Map(); /* of softmax: largest score and sum, by row and by mask */
  }

  raw(i, j) {
    const d = this.d, q = this.q, k = this.k;
    let sum = 0;
    for (let c = 0, a = i * d, b = j * d; c < d; c++) sum += q[a + c] * k[b + c];
    return sum * this.qs[i] * this.ks[j];
  }

  /* A bias by distance (ALiBi), rounded to bf16 as models learned it */
  bias(position) {
    const round = (x) => { const c = Math.fround(x * 65537); return Math.fround(c - Math.fround(c - x)); };
    return round(Math.fround(this.slope * round(position)));
  }

  scaled(i, j) {
    const bias = this.slope === null ? 0 : this.bias(j) - this.bias(i);
    const s = (this.raw(i, j) + bias) * this.layer.scale, cap = this.layer.cap;
    return cap > 0 ? cap * Math.tanh(s / cap) : s;
  }

  sees(i, j) {
    return j < endOf(this.layer, i) && j >= beginOf(this.layer, i);
  }

  /* [largest score, sum of exp] over what row i sees, or over all keys */
  norm(i, unmasked) {
    const key = unmasked ? -1 - i : i;
    if (this.rows.has(key)) return this.rows.get(key);
    const from = unmasked ? 0 : beginOf(this.layer, i), to = unmasked ? N : endOf(this.layer, i);
    const s = new Float64Array(to - from);
    let most = this.sink === null ? -Infinity : this.sink, sum = 0;
    for (let j = from; j < to; j++) most = Math.max(most, (s[j - from] = this.scaled(i, j)));
    for (const x of s) sum += Math.exp(x - most);
    if (this.sink !== null) sum += Math.exp(this.sink - most);
    this.rows.set(key, [most, sum]);
    return this.rows.get(key);
  }

  weight(i, j, unmasked) {
    if (!unmasked && !this.sees(i, j)) return 0;
    const [most, sum] = this.norm(i, unmasked);
    return Math.exp(this.scaled(i, j) - most) / sum;
  }

  /* What the sink takes of row i */
  sinkWeight(i, unmasked) {
    const [most, sum] = this.norm(i, unmasked);
    return this.sink === null ? 0 : Math.exp(this.sink - most) / sum;
  }

  value(stage, i, j, options) {
    if (stage === "raw") return this.raw(i, j);
    if (stage === "scaled") return this.scaled(i, j);
    if (stage === "masked") return this.sees(i, j) ? this.scaled(i, j) : -Infinity;
    return this.weight(i, j, stage === "unmasked") * (options.byValue ? this.vs[j] : 1);
  }

  hidden(stage, i, j) {
    return (stage === "masked" || stage === "weights") && !this.sees(i, j);
  }
}

const heads = new Map();
function headOf(entry) {
  const key = `${entry.layer}.${entry.head}`;
  if (!heads.has(key)) heads.set(key, new Head(entry));
  return heads.get(key);
}

/* ---- a map of one stage ---- */

const hatches = new Map();
function hatch(context) {
  const color = style("--hatch");
  if (!hatches.has(color)) {
    const tile = element("canvas", { width: 6, height: 6 }), c = tile.getContext("2d");
    c.strokeStyle = color;
    c.lineWidth = 1;
    c.beginPath();
    for (const at of [-6, 0, 6]) { c.moveTo(at, 6); c.lineTo(at + 6, 0); }
    c.stroke();
    hatches.set(color, tile);
  }
  return context.createPattern(hatches.get(color), "repeat");
}

/* The tokens of n rows and columns from `top` and `left` on, in a margin of m pixels */
function drawLabels(c, m, n, size, top, left) {
  const most = m < LABELS ? 7 : Infinity, name = (i) => (tokens[i].length > most ? `${[...tokens[i]].slice(0, most - 1).join("")}…` : tokens[i]);
  c.fillStyle = style("--text");
  c.font = `${Math.min(12, size)}px ui-monospace, Menlo, Consolas, monospace`;
  c.textBaseline = "middle";
  for (let i = 0; i < n; i++) {
    c.textAlign = "right";
    c.fillText(name(top + i), m - 4, m + (i + 0.5) * size, m - 6);
    drawColumnLabel(c, m, m + (i + 0.5) * size, name(left + i));
  }
}

function drawColumnLabel(c, m, x, text) {
  c.save();
  c.translate(x, m - 4);
  c.rotate(-Math.PI / 2);
  c.textAlign = "left";
  c.fillText(text, 0, 0, m - 6);
  c.restore();
}

/* The cells rows x columns of a stage on a canvas whose cells are `size` pixels; labels if they fit. */
class Heat {
  constructor(view, stage) {
    this.view = view;
    this.stage = stage;
    this.canvas = element("canvas", { tabindex: 0, role: "img" });
    this.box = element("div", { class: "map" }, this.canvas);
    this.canvas.addEventListener("mousemove", (e) => this.point(e, false));
    this.canvas.addEventListener("click", (e) => this.point(e, true));
    this.canvas.addEventListener("mouseleave", () => view.hover(null));
    this.canvas.addEventListener("keydown", (e) => view.key(e));
    this.canvas.addEventListener("wheel", (e) => {
      if (e.ctrlKey || e.shiftKey) { e.preventDefault(); view.zoom(e.deltaY < 0 ? 2 : 0.5); }
    }, { passive: false });
  }

  point(e, chosen) {
    const box = this.canvas.getBoundingClientRect(), m = this.view.margin();
    const scale = this.canvas.width / box.width / this.ratio;
    const j = Math.floor(((e.clientX - box.left) * scale - m) / this.view.size) + this.view.left;
    const i = Math.floor(((e.clientY - box.top) * scale - m) / this.view.size) + this.view.top;
    if (i < 0 || j < 0 || i >= N || j >= Math.min(N, this.view.left + this.view.count())) return;
    if (chosen) this.view.choose(i, j);
    else this.view.hover([i, j]);
  }

  draw() {
    const { view } = this, size = view.size, n = view.count(), m = view.margin();
    const ratio = (this.ratio = Math.min(window.devicePixelRatio || 1, 2)), c = this.canvas.getContext("2d");
    const wide = m + (n + this.sinkColumns()) * size, high = m + n * size;
    this.canvas.width = Math.ceil(wide * ratio);
    this.canvas.height = Math.ceil(high * ratio);
    Object.assign(this.canvas.dataset, { cell: size * ratio, margin: m * ratio }); /* where its cells are */
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${high}px`;
    this.canvas.setAttribute("aria-label",
      `${this.stage.title} of layer ${view.entry.layer}, head ${view.entry.head}; arrow keys choose a row; the table below has the numbers`);
    c.scale(ratio, ratio);
    c.clearRect(0, 0, wide, high);
    this.drawCells(c, m, n);
    if (m) drawLabels(c, m, n, size, view.top, view.left);
    if (this.sinkColumns()) this.drawSink(c, m, n);
    if (view.row >= view.top && view.row < view.top + n) {
      c.strokeStyle = style("--accent");
      c.lineWidth = 1.5;
      c.strokeRect(m, m + (view.row - view.top) * size, n * size, Math.max(size, 2));
    }
  }

  /* A gap and a column for what a learned sink takes, beside the weights */
  sinkColumns() {
    return this.view.head.sink === null || this.stage.signed ? 0 : SINK_COLUMNS;
  }

  drawSink(c, m, n) {
    const { view } = this, x = m + (n + 1) * view.size;
    for (let i = 0; i < n; i++) {
      const share = view.options.byValue ? 0 : view.head.sinkWeight(view.top + i, this.stage.key === "unmasked");
      c.fillStyle = `rgb(${shade(share).join(",")})`;
      c.fillRect(x, m + i * view.size, view.size, view.size);
    }
    c.fillStyle = style("--text");
    if (m) drawColumnLabel(c, m, x + view.size / 2, "sink");
  }

  /* Values first, for the scale of colours; then an image of n x n pixels, enlarged; then hatching. */
  drawCells(c, m, n) {
    const { view, stage } = this, { head, options, top, left, size } = view;
    const values = new Float32Array(n * n), covered = new Uint8Array(n * n);
    let most = 0;
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        const at = i * n + j;
        covered[at] = head.hidden(stage.key, top + i, left + j);
        if (covered[at]) continue;
        values[at] = head.value(stage.key, top + i, left + j, options);
        most = Math.max(most, Math.abs(values[at]));
      }
    if (!stage.signed && !options.byValue) most = 1;
    this.most = most;
    const image = new ImageData(n, n), pixels = new Uint32Array(image.data.buffer);
    const colors = stage.signed ? lookup(shadeSigned, -1, 1) : lookup(shade, 0, 1);
    for (let at = 0; at < n * n; at++) {
      const x = most ? values[at] / most : 0;
      pixels[at] = covered[at] ? 0 : colors[Math.round(stage.signed ? (x + 1) * 127.5 : x * 255)];
    }
    const small = element("canvas", { width: n, height: n });
    small.getContext("2d").putImageData(image, 0, 0);
    c.fillStyle = hatch(c);
    c.fillRect(m, m, n * size, n * size);
    c.imageSmoothingEnabled = false;
    c.drawImage(small, m, m, n * size, n * size);
  }
}

/* ---- one head ---- */

const LABELS = 92; /* pixels of the labels of rows and columns */
const LABELLED = 9; /* pixels of a cell from which on there are labels */
const SLICE = 30; /* ms that drawing takes at a time */
const STAGE_GAP = 18; /* as in page.css */
const SINK_COLUMNS = 2;

class View {
  constructor(place) {
    this.place = place;
    this.options = { unmasked: false, byValue: false };
    this.row = N - 1;
    this.top = this.left = 0;
    this.size = 0; /* pixels of a cell; 0: not chosen yet */
    onTheme.push(() => this.entry && this.draw());
  }

  /* Pixels of a map: the four stages stand side by side where the window is wide enough. */
  room() {
    const wide = this.place.clientWidth;
    return Math.floor(Math.min(448, wide >= 1400 ? (wide - 3 * STAGE_GAP) / STAGES.length : wide)) - 2;
  }

  /* Width of the labels beside the rows, 0 where cells are too small for them */
  margin() {
    return this.size >= LABELLED ? LABELS : 0;
  }

  /* Cells of a size at which the whole head fits, if it can */
  fit() {
    const columns = N + this.sinkColumns(), labelled = Math.floor((this.room() - LABELS) / columns), bare = Math.floor(this.room() / columns);
    this.size = labelled >= LABELLED ? Math.min(24, labelled) : Math.max(2, Math.min(LABELLED - 1, bare));
  }

  sinkColumns() {
    return data.layers[this.entry.layer].sinks ? SINK_COLUMNS : 0;
  }

  /* Rows and columns that are shown */
  count() {
    return Math.min(N, Math.max(8, Math.floor((this.room() - this.margin()) / this.size) - this.sinkColumns()));
  }

  open(entry) {
    this.entry = entry;
    if (!this.size) this.fit();
    this.head = entry.whole ? headOf(entry) : null;
    this.place.replaceChildren(...(this.head ? this.build() : this.buildPartial()).filter((part) => part));
    location.hash = `head=${entry.layer}.${entry.head}`;
    if (this.head) this.draw();
    this.place.querySelector("h2").focus();
  }

  title() {
    const { layer, head } = this.entry, w = data.layers[layer], share = w.heads / w.kv_heads;
    const kv = Math.floor(head / share);
    const parts = [`Layer ${layer}, head ${head}`];
    const group = share > 1 ? ` Heads ${kv * share} to ${kv * share + share - 1} share KV head ${kv}.` : "";
    const window = w.window ? ` A token sees the last ${w.window} positions.` : "";
    const sink = w.sinks ? ` Its sink scores ${format(w.sinks[head])}.` : "";
    return [element("h2", { tabindex: -1 }, parts[0]),
      element("p", { class: "soft" }, `Scores are q·k × ${format(w.scale, 4)}` +
        (w.cap > 0 ? `, capped at ${w.cap}.` : ".") + group + window + sink)];
  }

  buildPartial() {
    return [...this.title(),
      element("p", {}, "This head is in the file only in little: the text is long. " +
        `To have it whole, run look with --head ${this.entry.layer}.${this.entry.head}.`)];
  }

  build() {
    const toggle = (key, text) => element("label", {},
      element("input", { type: "checkbox", id: key, checked: this.options[key],
        onchange: (e) => { this.options[key] = e.target.checked; this.open(this.entry); this.place.querySelector(`#${key}`).focus(); } }), " ", text);
    const scaled = STAGES.find((s) => s.key === "scaled");
    STAGES.find((s) => s.key === "weights").note = this.head.sink === null ? "each row sums to 1" : "each row and its sink sum to 1";
    scaled.title = data.layers[this.entry.layer].cap > 0 ? "scaled and capped" : "scaled";
    this.maps = [...STAGES, ...(this.options.unmasked ? [UNMASKED] : [])].map((stage) => new Heat(this, stage));
    this.where = element("p", { class: "number soft", id: "where" }, "\u00a0");
    this.written = element("p", { class: "number", id: "row" });
    this.sentence = element("p", { id: "sentence" });
    this.table = element("div", { class: "scroll" });
    return [...this.title(),
      element("div", { class: "controls" },
        toggle("unmasked", "softmax without the mask"),
        toggle("byValue", "weights times the length of the value"),
        element("button", { type: "button", onclick: () => this.zoom(2), "aria-label": "larger cells" }, "+"),
        element("button", { type: "button", onclick: () => this.zoom(0.5), "aria-label": "smaller cells" }, "−"),
        element("button", { type: "button", id: "png", onclick: () => this.export() }, "save as PNG"),
        element("span", { class: "soft" }, N > this.count() ? "arrow keys move through the text" : "arrow keys choose a row")),
      this.buildGuide(),
      element("div", { class: "stages" }, ...this.maps.map((m) => element("section", { class: "stage" },
        element("h3", {}, m.stage.title), m.box, element("p", { class: "soft" }, m.stage.note)))),
      this.where,
      element("h3", {}, "The row, written out"), this.written,
      element("h3", {}, "The sentence: what the chosen token looks at (filled), and what looks at it (underlined)"), this.sentence,
      element("details", {}, element("summary", {}, "Table of this row"), this.table)];
  }

  /* Of a long text: the whole head in little, with a frame around what the maps show */
  buildGuide() {
    this.guide = null;
    if (N <= this.count()) return null;
    this.guide = element("canvas", { id: "guide", style: "cursor:crosshair",
      role: "img", "aria-label": "the whole head in little; click to show a part" });
    this.guide.addEventListener("click", (e) => {
      const box = this.guide.getBoundingClientRect(), n = this.count();
      this.top = Math.round(((e.clientY - box.top) / box.height) * N - n / 2);
      this.left = Math.round(((e.clientX - box.left) / box.width) * N - n / 2);
      this.row = Math.max(0, Math.min(N - 1, this.top + (n >> 1)));
      this.move(0, 0);
    });
    return element("div", { class: "controls" }, element("div", { class: "map" }, this.guide),
      element("p", { class: "soft" }, "The frame is the part below. Click to move it."));
  }

  drawGuide() {
    const n = this.count(), side = 256 / N;
    drawSmall(this.guide, this.entry, 256);
    const c = this.guide.getContext("2d");
    c.strokeStyle = style("--accent");
    c.lineWidth = 2;
    c.strokeRect(this.left * side, this.top * side, Math.max(4, n * side), Math.max(4, n * side));
  }

  /* A short text is drawn at once, a long one in slices; a later call ends an earlier one. */
  draw() {
    if (!this.head) return;
    const steps = (this.steps = this.drawSteps());
    const slice = () => {
      const end = N <= 512 ? Infinity : performance.now() + SLICE;
      while (this.steps === steps && performance.now() < end) if (steps.next().done) return;
      if (this.steps === steps) setTimeout(slice);
    };
    slice();
  }

  /* Softmax needs the sums of whole rows: they come before what shows them. */
  *drawSteps() {
    for (const map of this.maps) {
      for (let i = this.top; !map.stage.signed && i < this.top + this.count(); i++) yield this.head.norm(i, map.stage.key === "unmasked");
      yield map.draw();
    }
    if (this.guide) yield this.drawGuide();
    const [from, to] = this.excerpt();
    for (let j = from; j < to; j++) yield this.head.norm(j, false);
    this.describe();
  }

  /* Tokens of the sentence that are shown: from .. to - 1 */
  excerpt() {
    const from = Math.max(0, Math.min(this.row - 100, N - 200));
    return [from, Math.min(N, from + 200)];
  }

  zoom(by) {
    this.size = Math.max(1, Math.min(32, Math.round(this.size * by)));
    this.move(0, 0);
  }

  /* Keeps the chosen row in sight. */
  move(down, right) {
    const n = this.count();
    this.top = Math.max(0, Math.min(N - n, this.top + down));
    this.left = Math.max(0, Math.min(N - n, this.left + right));
    if (this.row < this.top) this.top = this.row;
    if (this.row >= this.top + n) this.top = this.row - n + 1;
    this.draw();
  }

  choose(i) {
    this.row = i;
    this.move(0, 0);
  }

  key(e) {
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -16, PageDown: 16 }[e.key];
    const side = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (e.key === "+" || e.key === "-") this.zoom(e.key === "+" ? 2 : 0.5);
    else if (e.key === "Home") this.choose(0);
    else if (e.key === "End") this.choose(N - 1);
    else if (step) this.choose(Math.max(0, Math.min(N - 1, this.row + step)));
    else if (side) this.move(0, side * 8);
    else return;
    e.preventDefault();
  }

  hover(cell) {
    if (!cell) return;
    const [i, j] = cell, h = this.head, hidden = h.hidden("masked", i, j);
    this.where.textContent = `row ${i} “${tokens[i]}”, key ${j} “${tokens[j]}”: q·k ${format(h.raw(i, j))}, scaled ` +
      `${format(h.scaled(i, j))}, ${hidden ? "masked" : "seen"}, weight ${format(h.weight(i, j, false), 4)}`;
  }

  /* The row as a sum, the sentence, the table */
  describe() {
    const h = this.head, i = this.row;
    const w = Array.from({ length: N }, (_, j) => h.weight(i, j, false));
    const order = w.map((x, j) => [x, j]).filter(([x]) => x >= 0.005).sort((a, b) => b[0] - a[0]);
    const shown = order.slice(0, 12).sort((a, b) => a[1] - b[1]);
    const sum = w.reduce((a, b) => a + b, 0), rest = sum - shown.reduce((a, [x]) => a + x, 0), sink = h.sinkWeight(i, false);
    this.written.replaceChildren(token(tokens[i]), " = ",
      ...shown.flatMap(([x, j], at) => [at ? " + " : "", `${format(x, 2)} `, token(tokens[j])]),
      rest >= 0.005 ? ` + ${format(rest, 2)} of others` : "", h.sink === null ? "" : ` + ${format(sink, 2)} to the sink`,
      `   (sum ${format(sum, 4)}${h.sink === null ? "" : `, with the sink ${format(sum + sink, 4)}`})`);
    this.describeSentence(w);
    const rows = order.slice(0, 200).map(([x, j]) => element("tr", {}, element("th", { scope: "row" }, `${j} ${tokens[j]}`),
      ...[h.raw(i, j), h.scaled(i, j), x].map((v) => element("td", { class: "number" }, format(v, 4)))));
    if (h.sink !== null) rows.push(element("tr", {}, element("th", { scope: "row" }, "sink"), ...["", format(h.sink, 4), format(sink, 4)].map((v) => element("td", { class: "number" }, v))));
    this.table.replaceChildren(element("table", {}, element("caption", { class: "hidden" }, `Row ${i}, ${tokens[i]}: keys by weight`),
      headings("key", "q·k", "scaled", "weight"),
      element("tbody", {}, ...rows)));
  }

  /* How the button of token j looks while row i is chosen: filled as i looks at it, underlined as it
   * looks at i. Returns the latter. */
  dress(button, i, j, weight) {
    const h = this.head, back = j !== i && h.sees(j, i) ? h.weight(j, i, false) : 0;
    paint(button, weight);
    button.style.boxShadow = `inset 0 -${Math.round(back * 8)}px 0 0 var(--accent)`;
    button.style.outline = j === i ? "2px solid var(--accent)" : "";
    return back;
  }

  describeSentence(w) {
    const [from, to] = this.excerpt(), buttons = [];
    for (let j = from; j < to; j++) {
      const button = element("button", { type: "button", class: "token", dir: "auto", "aria-pressed": j === this.row ? "true" : "false",
        onclick: () => this.choose(j), onmouseenter: () => { if (N <= 200 && this.row !== j) { this.row = j; this.peek(j); } } }, tokens[j]);
      const back = this.dress(button, this.row, j, w[j]);
      button.title = `${j}: looks ${format(w[j])}${back ? `, is looked at ${format(back)}` : ""}`;
      buttons.push(button);
    }
    this.sentence.replaceChildren(...buttons);
  }

  /* Another row, while the mouse is over the sentence: its buttons stay, their colours change. */
  peek(i) {
    [...this.sentence.children].forEach((button, j) => this.dress(button, i, j, this.head.weight(i, j, false)));
    this.maps.forEach((m) => m.draw());
  }

  export() {
    const gap = 24, top = 26, canvases = this.maps.map((m) => m.canvas);
    const out = element("canvas", { width: canvases.reduce((a, c) => a + c.width + gap, gap), height: Math.max(...canvases.map((c) => c.height)) + top + gap });
    const c = out.getContext("2d");
    c.fillStyle = style("--back");
    c.fillRect(0, 0, out.width, out.height);
    c.fillStyle = style("--text");
    c.font = "16px system-ui, sans-serif";
    let x = gap;
    this.maps.forEach((m) => {
      c.fillText(`${this.entry.layer}.${this.entry.head} ${m.stage.title}`, x, 18);
      c.drawImage(m.canvas, x, top);
      x += m.canvas.width + gap;
    });
    save(`head-${this.entry.layer}.${this.entry.head}.png`, out);
  }
}

/* ---- all heads ---- */

const SMALL_LABELS = 46; /* pixels of the labels of a head in little */
const SMALL_LABELLED = 8; /* and of a cell from which on there are labels */
let little = N <= 20 ? 160 : 96; /* pixels of a head in little */

const SORTS = ["layer", "entropy", "sink", "previous", "duplicate", "induction"];

/* A head in little, `wide` pixels a side: what is masked is hatched; short texts have labels. */
function drawSmall(canvas, entry, wide) {
  const n = entry.side, w = data.layers[entry.layer], cells = bytesOf(entry.cells), image = new ImageData(n, n), pixels = new Uint32Array(image.data.buffer);
  const colors = lookup(shade, 0, 1), ratio = Math.min(window.devicePixelRatio || 1, 2), c = canvas.getContext("2d");
  const m = n === N && (wide - SMALL_LABELS) / n >= SMALL_LABELLED ? SMALL_LABELS : 0, size = (wide - m) / n;
  for (let i = 0; i < n * n; i++) pixels[i] = isMasked(w, n, Math.floor(i / n), i % n) ? 0 : colors[cells[i]];
  const whole = element("canvas", { width: n, height: n });
  whole.getContext("2d").putImageData(image, 0, 0);
  canvas.width = canvas.height = wide * ratio;
  canvas.style.width = canvas.style.height = `${wide}px`;
  Object.assign(canvas.dataset, { cell: size * ratio, margin: m * ratio });
  c.scale(ratio, ratio);
  c.fillStyle = hatch(c);
  c.fillRect(m, m, n * size, n * size);
  c.imageSmoothingEnabled = false;
  c.drawImage(whole, m, m, n * size, n * size);
  if (m) drawLabels(c, m, n, size, 0, 0);
}

/* Pictures are drawn when they come into sight. */
const seen = new IntersectionObserver((entries) => entries.forEach((e) => {
  if (!e.isIntersecting) return;
  seen.unobserve(e.target);
  drawSmall(e.target, e.target.entry, little);
}), { rootMargin: "400px" });

function smallOf(entry, score, view) {
  const canvas = element("canvas", { width: 1, height: 1, "aria-hidden": "true", style: `width:${little}px;height:${little}px` });
  canvas.entry = entry;
  seen.observe(canvas);
  const name = `${entry.layer}.${entry.head}`, shows = score !== "layer" ? ` ${format(entry[score], 2)}` : "";
  return element("button", { type: "button", class: entry.whole ? "small" : "small partial", "data-head": name,
    "aria-label": `layer ${entry.layer}, head ${entry.head}` + SORTS.slice(1).map((s) => `, ${s} ${format(entry[s], 2)}`).join(""),
    title: SORTS.slice(1).map((s) => `${s} ${format(entry[s], 3)}`).join("\n"),
    onclick: () => { view.open(entry); view.place.scrollIntoView({ block: "start" }); } }, canvas, name + shows);
}

/* By layer, with the heads that share keys and values in one frame; or in the order of a score. */
function showHeads(place, sort, view) {
  const of = (list) => list.map((h) => smallOf(h, sort, view));
  if (sort !== "layer") {
    const rising = sort === "entropy" ? 1 : -1;
    place.replaceChildren(element("div", { class: "group" }, ...of([...data.heads].sort((a, b) => rising * (a[sort] - b[sort])))));
    return;
  }
  const rows = [];
  for (const l of new Set(data.heads.map((h) => h.layer))) {
    const w = data.layers[l], share = w.heads / w.kv_heads, mine = data.heads.filter((h) => h.layer === l), groups = [];
    for (let kv = 0; kv < w.kv_heads; kv++)
      groups.push(element("div", { class: "group", role: "group", "aria-label": `layer ${l}, KV head ${kv}` }, share > 1 ? element("span", { class: "soft shared" }, `KV head ${kv}`) : null,
        ...of(mine.filter((h) => Math.floor(h.head / share) === kv))));
    rows.push(element("h3", {}, `Layer ${l}`, element("span", { class: "soft" },
      `  ${w.heads} heads${share > 1 ? `, ${w.kv_heads} KV heads` : ""}${w.window ? `, window ${w.window}` : ""}${w.sinks ? ", sinks" : ""}`)),
      element("div", { class: "layer" }, ...groups));
  }
  place.replaceChildren(...rows);
}

/* Other pixels for the heads in little; those that were not in sight are drawn when they are. */
function resize(wide) {
  little = wide;
  document.querySelectorAll(".small canvas").forEach((c) => {
    if (c.width > 1) drawSmall(c, c.entry, wide);
    else c.style.width = c.style.height = `${wide}px`;
  });
}

function start() {
  const grid = element("div", { id: "heads" }), one = element("section", { id: "one", "aria-live": "polite" });
  const view = new View(one), whole = data.heads.filter((h) => h.whole), left = data.heads.length - whole.length;
  const select = element("select", { id: "sort", onchange: () => showHeads(grid, select.value, view) },
    ...SORTS.map((s) => element("option", { value: s }, s === "layer" ? "by layer" : `by ${s}`)));
  document.body.prepend(pageHeader("Attention atlas",
    element("span", { class: "soft" }, `${data.model}, ${data.type} weights, ${data.cache} cache; ${N} tokens` +
      (data.n_prompt < N ? `, ${N - data.n_prompt} of them generated` : ""))));
  document.body.append(element("main", {},
    element("p", {}, "Each square is a head: rows are tokens, columns the tokens that they look at, a stronger colour is more; hatched cells may not be looked at. Choose one to see its stages." +
      (N > 64 ? " A cell is the largest weight of the tokens that it stands for." : "")),
    left ? element("p", { class: "soft", id: "left-out" }, `Left out: ${left} of ${data.heads.length} heads (dashed) are in this file only in little.`) : null,
    element("div", { class: "controls" }, element("label", {}, "Sort ", select),
      element("label", {}, "Size ", element("input", { type: "range", id: "size", min: 64, max: 384, step: 32, value: little, oninput: (e) => resize(Number(e.target.value)) }))),
    grid, one,
    element("p", { class: "soft" }, "entropy: of a row, in bits. sink: weight of the first token, and of a learned sink. previous: of the token before. duplicate: of the same " +
      "token earlier. induction: of what followed the same token earlier. q and k are stored in 16 bits; the engine's weights agree within 0.001.")));
  showHeads(grid, "layer", view);
  const asked = /head=(\d+)\.(\d+)/.exec(location.hash), row = /row=(\d+)/.exec(location.hash);
  if (row) view.row = Math.min(N - 1, Number(row[1]));
  const entry = asked ? data.heads.find((h) => h.layer === +asked[1] && h.head === +asked[2]) : whole.length === 1 ? whole[0] : null;
  if (entry) view.open(entry);
  onTheme.push(() => document.querySelectorAll(".small canvas").forEach((c) => c.width > 1 && drawSmall(c, c.entry, little)));
}

start();
