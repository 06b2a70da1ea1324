/* A walk with one token through one layer: words, equations and drawings. The numbers come from the run.
 *
 * Every step names the code that computes it: [file, function, a line of it]. tests/cli/test_look_tour.py fails when
 * one of them is no longer there. */

const CODE = {
  tokens: ["src/text/bpe.c", "bpe_word", "encoding_put(c, c->merge.symbols[i].id);"],
  embed: ["src/model/plain.c", "embed", "k->get_row[m->embed.type](p->x, m->embed.data, m->dim, (size_t)row->token);"],
  norm: ["src/model/plain.c", "normed", "norm_row(f, p->h, p->x, norm, f->model->dim);"],
  q: ["src/model/plain.c", "project_qkv", "plain_matmul(f, l, p->q, &w->q, h);"],
  k: ["src/model/plain.c", "project_qkv", "plain_matmul(f, l, p->k, &w->k, h);"],
  v: ["src/model/plain.c", "project_qkv", "plain_matmul(f, l, p->v, &w->v, h);"],
  rope: ["src/model/plain.c", "turn_heads", "f->kernels->rope(q + h * w->head_dim, p->cos + at, p->sin + at, w->rope->half);"],
  store: ["src/model/plain.c", "project_qkv", "kv_store(f, l, row, i, true, p->k + i * d, d, s);"],
  score: ["src/model/plain.c", "attend_head", "b.k = cache_k(f->cache, w->index, row->seq, at, kv_head);"],
  scale: ["src/model/plain.c", "attend_head", "b.scale = w->attn_scale, b.softcap = w->attn_cap, b.scores = p->scores;"],
  mask: ["src/model/plain.c", "attend_head", "see.hi = (uint16_t)(min_size(end, at + BLOCK) - at);"],
  softmax: ["src/model/plain.c", "attend_head", "k->divide(p->att + h * v_dim, p->A, L, v_dim);"],
  sum: ["src/model/plain.c", "attend_head", "k->mix[w->latent.rank ? TERN_CACHE_F32 : f->cache->type](&b);"],
  heads: ["src/model/plain.c", "attention", "attend_head(f, w, row, i);"],
  output: ["src/model/plain.c", "attention", "plain_matmul(f, w->index, y, &w->o, f->plain.att);"],
  add: ["src/model/plain.c", "add_to_stream", "f->kernels->add(f->plain.x, y, m->dim);"],
  ffn: ["src/model/plain.c", "feed_forward", "plain_matmul(f, w->index, y, down, p->up);"],
  experts: ["src/model/plain.c", "experts", "router_choose(x, p->scores, p->taken, p->chosen);"],
  page: ["src/model/kv_store.c", "store_key", "size_t at = p / LANES * head_dim * LANES + p % LANES;"],
  logits: ["src/model/plain.c", "head", "plain_matmul(f, m->n_layers, logits, &m->head, normed(f, norm));"],
  sample: ["src/sample/candidates.c", "candidates_weight", "return math_exp((candidates_at(c, i).value - best) / c->t);"],
};

const N = data.n_prompt, D = data.head_dim, HALF = data.rope_dims / 2, ALL = data.tokens.length;
const GROUP = data.heads / data.kv_heads, KV = Math.floor(data.head / GROUP);
const state = { at: N - 1, bos: true };
const drawn = []; /* functions that fill a place for the token that is followed */

const times = (...sizes) => sizes.join(" x ");
const label = (i) => (i === 0 && data.has_bos ? "BOS" : data.tokens[i][1]);
const rowClass = (i) => (i === 0 && data.has_bos ? "bos " : "") + (i === state.at ? "at" : "");
const number = (x, digits = 3) => (x === null ? "-∞" : (Number.isFinite(x) ? format(x, digits) : format(x)).replace("-", "−"));
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const slice = (list, i, n) => list.slice(i * n, (i + 1) * n);
const paragraph = (...parts) => element("p", {}, ...parts);
const grouped = (n) => n.toLocaleString("en-US");

/* A vector as a strip of colours, orange below 0 and blue above */
function strip(values) {
  const canvas = element("canvas", { class: "strip", width: values.length, height: 1, "aria-hidden": "true" });
  const most = Math.max(...values.map(Math.abs)) || 1;
  const draw = () => {
    const image = new ImageData(values.length, 1);
    values.forEach((x, i) => image.data.set([...shadeSigned(x / most), 255], 4 * i));
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  draw();
  strips.push(draw);
  return canvas;
}
let strips = [];

/* Rows of numbers, one for each token: the first ones, and the whole as a strip. part: [from, to) of the columns */
function rowsOf(values, first = 5) {
  return element("div", { class: "map" }, element("table", {},
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "token"), ...Array.from({ length: first }, (_, c) => element("th", { scope: "col" }, String(c))),
      element("th", { scope: "col" }, `all ${values[0].length}`))),
    element("tbody", {}, ...values.map((row, i) => element("tr", { class: rowClass(i) }, element("th", { scope: "row" }, label(i)),
      ...row.slice(0, first).map((x) => element("td", { class: "number" }, number(x))), element("td", {}, strip(row)))))));
}

function stepRows(name) {
  return data.steps[name].rows.slice(0, N);
}

/* A square of a stage: rows are queries, columns are keys */
function square(stage, digits = 2) {
  const values = data[stage], isWeights = stage === "weights" || stage === "unmasked";
  const seen = values.filter((x) => x !== null), most = isWeights ? 1 : Math.max(...seen.map(Math.abs));
  const cell = (i, j) => {
    const x = values[i * ALL + j], away = (stage === "masked" || stage === "weights") && data.masked[i * ALL + j] === null;
    const box = element("td", { class: `number cell ${j === 0 && data.has_bos ? "bos" : ""} ${away ? "away" : ""}` }, away && stage === "weights" ? "" : number(x, digits));
    if (!away) paint(box, isWeights ? x : x / most, isWeights ? shade : shadeSigned);
    return box;
  };
  const range = Array.from({ length: N }, (_, i) => i);
  return element("div", { class: "map" }, element("table", { class: "square" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "query \\ key"), ...range.map((j) => element("th", { scope: "col", class: j === 0 && data.has_bos ? "bos" : "" }, label(j))), isWeights ? element("th", { scope: "col" }, "sum") : null)),
    element("tbody", {}, ...range.map((i) => element("tr", { class: rowClass(i) }, element("th", { scope: "row" }, label(i)), ...range.map((j) => cell(i, j)),
      isWeights ? element("td", { class: "number" }, number(range.reduce((s, j) => s + values[i * ALL + j], 0), 2)) : null)))));
}

/* A step of the walk. body: a function that returns its nodes for the token that is followed. */
function step(name, title, { shape, moves, equation, code }, body) {
  const place = element("div", {});
  drawn.push(() => place.replaceChildren(...body().filter((x) => x)));
  return element("section", { id: name, class: "step" }, element("h2", {}, title),
    element("dl", {},
      equation ? element("div", {}, element("dt", {}, "equation"), element("dd", {}, element("code", {}, equation))) : null,
      element("div", {}, element("dt", {}, "shape"), element("dd", {}, element("code", {}, shape))),
      ...(code || []).map(([file, where, line]) => element("div", {}, element("dt", {}, "code"), element("dd", {}, element("code", { class: "line" }, line), " ", element("span", { class: "soft" }, `${file}, ${where}`)))),
      element("div", {}, element("dt", {}, "memory"), element("dd", {}, moves))),
    place);
}

const quote = (i) => token(label(i));

/* ---- the drawings --------------------------------------------------------------------------- */

function svg(name, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

function picture(width, height, title, ...children) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", class: "drawing" }, svg("title", {}, title), ...children);
}

/* Pairs of dimensions of q before and after RoPE, as arrows */
function rotation(pair) {
  const q = slice(data.head_q, state.at, D), cos = data.cos[state.at * HALF + pair], sin = data.sin[state.at * HALF + pair];
  const size = cos * cos + sin * sin, a = q[pair], b = q[pair + HALF];
  const before = [(a * cos + b * sin) / size, (b * cos - a * sin) / size], most = Math.hypot(...before) * Math.max(1, Math.sqrt(size)) || 1;
  const arrow = ([x, y], kind) => svg("line", { x1: 80, y1: 80, x2: 80 + (60 * x) / most, y2: 80 - (60 * y) / most, class: kind });
  const angle = (Math.atan2(sin, cos) * 180) / Math.PI;
  return element("figure", {}, picture(160, 160, `dimensions ${pair} and ${pair + HALF} turn by ${angle.toFixed(1)} degrees`,
    svg("circle", { cx: 80, cy: 80, r: 60, class: "round" }), arrow(before, "before"), arrow([a, b], "after")),
    element("figcaption", {}, `dims ${pair}, ${pair + HALF}: ${number(angle, 1)}°`, element("br"), `(${before.map((x) => number(x, 2)).join(", ")}) → (${number(a, 2)}, ${number(b, 2)})`));
}

/* ---- the walk ------------------------------------------------------------------------------- */

function tokenTable() {
  return element("div", { class: "map" }, element("table", {}, headings("position", "piece", "id", "bytes"),
    element("tbody", {}, ...data.tokens.slice(0, N).map(([id, text, bytes], i) => element("tr", { class: rowClass(i) }, element("th", { scope: "row" }, String(i)),
      element("td", {}, token(text), i === 0 && data.has_bos ? " (BOS)" : null), element("td", { class: "number" }, String(id)), element("td", { class: "number" }, bytes))))));
}

function weightedSum() {
  const row = data.weights.slice(state.at * ALL, state.at * ALL + N), v = (j) => slice(data.head_v, j, D), first = 3;
  const seen = row.map((w, j) => [w, j]).filter(([, j]) => j <= state.at && data.masked[state.at * ALL + j] !== null && (state.bos || !data.has_bos || j));
  const got = data.steps.attend.rows[state.at].slice(data.head * D, data.head * D + first);
  return [paragraph(quote(state.at), " = ", seen.map(([w, j]) => `${number(w, 2)} ${label(j)}`).join(" + ")),
    element("div", { class: "map" }, element("table", {}, headings("key", "weight", ...Array.from({ length: first }, (_, c) => `v[${c}]`)),
      element("tbody", {}, ...seen.map(([w, j]) => element("tr", { class: j === 0 && data.has_bos ? "bos" : "" }, element("th", { scope: "row" }, label(j)), element("td", { class: "number" }, number(w)), ...v(j).slice(0, first).map((x) => element("td", { class: "number" }, number(x))))),
        element("tr", { class: "at" }, element("th", { scope: "row" }, "sum"), element("td", {}), ...got.map((x) => element("td", { class: "number" }, number(x)))))))];
}

function headsTable() {
  const row = data.steps.attend.rows[state.at], shown = Math.min(data.heads, Math.floor(row.length / D));
  return element("div", { class: "map" }, element("table", {}, headings("head", "KV head", "columns", "looks most at", "its output"),
    element("tbody", {}, ...Array.from({ length: shown }, (_, h) => {
      const w = data.all_weights[h].slice(state.at * ALL, state.at * ALL + N), best = w.indexOf(Math.max(...w));
      return element("tr", { class: h === data.head ? "at" : "" }, element("th", { scope: "row" }, String(h)), element("td", {}, String(Math.floor(h / GROUP))), element("td", { class: "number" }, `${h * D} … ${(h + 1) * D - 1}`),
        element("td", {}, `${label(best)} ${number(w[best], 2)}`), element("td", {}, strip(row.slice(h * D, (h + 1) * D))));
    }))));
}

function cacheTable() {
  const bytes = data.cache_sizes[0][1];
  return element("div", { class: "map" }, element("table", {}, headings("token evaluated", "positions", "K and V", "tokens"),
    element("tbody", {}, ...data.tokens.map(([, text], i) => element("tr", { class: rowClass(i) }, element("th", { scope: "row" }, text), element("td", { class: "number" }, String(i + 1)),
      element("td", { class: "number" }, `${grouped((i + 1) * bytes)} bytes`), element("td", { class: "number" }, `${4 * (i + 1)} bytes`))))));
}

function cacheSizes() {
  const mib = (b) => (b < 1 << 20 ? `${(b / 1024).toFixed(1)} KiB` : `${(b / (1 << 20)).toFixed(1)} MiB`);
  return element("div", { class: "map" }, element("table", {}, headings("cache (f16)", "bytes a position", ...data.cache_lengths.map((n) => `at ${grouped(n)}`)),
    element("tbody", {}, ...data.cache_sizes.map(([name, position, ...at]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "number" }, grouped(position)), ...at.map((b) => element("td", { class: "number" }, mib(b))))))));
}

function logitTable() {
  const next = data.tokens[N];
  return element("div", { class: "map" }, element("table", {}, headings("token", "logit", "probability"),
    element("tbody", {}, ...data.top.map(([[id, text], logit, logprob]) => element("tr", { class: next && next[0] === id ? "at" : "" }, element("th", { scope: "row" }, token(text)), element("td", { class: "number" }, number(logit)), element("td", { class: "number" }, number(Math.exp(logprob))))))));
}

/* softmax(logits / t) among the tokens that are listed */
function temperatureTable() {
  const share = (t) => { const e = data.top.map(([, x]) => Math.exp((x - data.top[0][1]) / t)), sum = e.reduce((a, b) => a + b); return e.map((x) => x / sum); };
  const temperatures = [0.5, 0.8, 1, 2], columns = temperatures.map(share);
  return element("div", { class: "map" }, element("table", {}, headings("token", ...temperatures.map((t) => `T = ${t}`)),
    element("tbody", {}, ...data.top.slice(0, 5).map(([[, text]], i) => element("tr", {}, element("th", { scope: "row" }, token(text)), ...columns.map((c) => element("td", { class: "number" }, number(c[i]))))))));
}

function walk() {
  const x = times(N, data.dim), qShape = times(N, data.heads * D), kvShape = times(N, data.kv_heads * D), scores = times(data.heads, N, N);
  const isMoe = data.experts > 0;
  const steps = [
    step("tokens", "Text becomes tokens", { shape: `tokens [T] = ${N}`, moves: `${4 * N} bytes: one id of 4 bytes for each token.`, code: [CODE.tokens] }, () => [
      paragraph("A token is a piece of text with a number. A middle dot stands for a space. ", data.has_bos ? "The first row is BOS, the token that begins every text. The text does not contain it, yet every head can attend to it." : null), tokenTable()]),
    step("embedding", "Each token becomes a vector", { shape: `x [T, dim] = ${x}`, equation: "x = E[token]", code: [CODE.embed], moves: `${N} rows of ${data.dim} numbers are copied from the embedding E, ${times(grouped(data.vocab), data.dim)}.` }, () => [
      paragraph("The same token has the same row wherever it stands. The vector does not know its position yet. Orange is below 0, blue is above."), rowsOf(stepRows("embed")),
      data.layer ? paragraph(`Layers 0 to ${data.layer - 1} have changed x before the layer of this tour sees it:`) : null, data.layer ? rowsOf(stepRows("in")) : null]),
    data.steps.attn_norm ? step("norm", "A norm brings all vectors to one size", { shape: `h [T, dim] = ${x}`, equation: "h = g · x / √(mean(x²) + ε)   (RMSNorm)", code: [CODE.norm], moves: "x stays as it is. h goes to a buffer of its own, which the next step reads." }, () => [rowsOf(stepRows("attn_norm"))]) : null,
    step("qkv", "Query, key and value", { shape: `q [T, H · d] = ${qShape} as ${data.heads} heads of ${D};  k, v [T, G · d] = ${kvShape} as ${data.kv_heads} heads of ${D}`, equation: "q = Wq h    k = Wk h    v = Wv h", code: [CODE.q, CODE.k, CODE.v],
      moves: `Splitting into heads moves nothing: head h begins at column ${D} h.` }, () => [
      paragraph(`The query says what a token looks for. The key says what it offers. The value is what it passes on. Below is head ${data.head}, which reads KV head ${KV}. `, HALF ? "RoPE (next step) has already turned q and k here." : null),
      element("h3", {}, `q of head ${data.head}`), rowsOf(Array.from({ length: N }, (_, i) => slice(data.head_q, i, D))),
      element("h3", {}, `k of KV head ${KV}`), rowsOf(Array.from({ length: N }, (_, i) => slice(data.head_k, i, D))),
      element("h3", {}, `v of KV head ${KV}`), rowsOf(Array.from({ length: N }, (_, i) => slice(data.head_v, i, D)))]),
    HALF ? step("rope", "RoPE turns q and k by their position", { shape: `q [T, H, d] = ${times(N, data.heads, D)}, ${HALF} pairs in each head`, equation: "(a, b) → (a cos φ − b sin φ, b cos φ + a sin φ),  φ = position · frequency of the pair", code: [CODE.rope],
      moves: "In place: q and k keep their buffers. The angles are computed once for each token, not for each head." }, () => [
      paragraph("The query of ", quote(state.at), ` stands at position ${state.at}. Each pair of its dimensions turns: the dashed arrow is before, the solid one after. The first pair turns fast, the last one slowly. Position 0 does not turn. The product of a turned query and a turned key depends only on their distance.`),
      element("div", { class: "layer" }, ...[0, 1, Math.floor(HALF / 4), HALF - 1].filter((p, i, all) => p >= 0 && p < HALF && all.indexOf(p) === i).map(rotation)),
      paragraph(element("span", { class: "soft" }, "RoPE: Su et al. 2021, “RoFormer”."))]) : null,
    step("scores", "Scores: each query meets each key", { shape: `s [H, T, T] = ${scores}`, equation: "s_ij = q_i · k_j", code: [CODE.score], moves: `The engine reads K from the cache in blocks of 256 positions. It keeps the scores of one block, never the whole square.` }, () => {
      const q = slice(data.head_q, state.at, D), parts = [0, 1, 2].map((c) => `${number(q[c], 2)} · ${number(data.head_k[state.at * D + c], 2)}`);
      return [paragraph(quote(state.at), " with itself: ", parts.join(" + "), ` + … = ${number(data.raw[state.at * ALL + state.at], 2)}`), square("raw"),
        paragraph("The square is full here: later keys are shown, too, so that you see what the mask takes away. The engine does not compute them.")];
    }),
    step("scale", "Scale", { shape: `[H, T, T] = ${scores}`, equation: `s · ${number(data.scale, 4)}${data.cap ? `, then ${data.cap} · tanh(s / ${data.cap})` : ""}   (usually 1 / √d, and 1 / √${D} = ${number(1 / Math.sqrt(D), 4)})`, code: [CODE.scale], moves: "Nothing moves: each score is multiplied where it is." }, () => [
      paragraph("A sum of d products grows with √d. Dividing by √d keeps the softmax from choosing one key alone. An experiment below leaves it out."), square("scaled")]),
    step("mask", "Mask", { shape: `[H, T, T] = ${scores}`, equation: `s_ij + M_ij,  M_ij = 0 where j ≤ i${data.window ? ` and i − j < ${data.window}` : ""}, else −∞`, code: [CODE.mask], moves: "No mask is stored. It is the range of keys that a row reads: lo to hi." }, () => [
      paragraph("A token may look at itself and at what came before. Hatched cells are masked."), square("masked")]),
    step("softmax", "Softmax", { shape: `[H, T, T] = ${scores}`, equation: "p_ij = exp(s_ij − max) / Σ exp(s_ij − max)" + (data.sinks ? "   (the sink is one more term of the sum)" : ""), code: [CODE.softmax], moves: "The sum is divided once, at the end, after the values have been added." }, () => [
      paragraph(data.sinks ? "With a sink, a row sums to less than 1." : "Each row sums to 1."), square("weights"),
      element("details", {}, element("summary", {}, "Softmax without the mask"), square("unmasked"))]),
    step("sum", "Weighted sum of the values", { shape: `z [T, H, d] = ${times(N, data.heads, D)}`, equation: "z_i = Σ_j p_ij v_j", code: [CODE.sum], moves: `V is read once for each of its rows. ${GROUP > 1 ? `The ${GROUP} query heads of a group read the same K and V.` : ""}` }, () => [...weightedSum(), state.bos || !data.has_bos ? null : paragraph("BOS is hidden, so its term is missing above; the sum below still has it.")]),
    step("heads", "Heads side by side", { shape: `z [T, H · d] = ${qShape}`, equation: "z = [z of head 0, z of head 1, …]", code: [CODE.heads], moves: "Concatenation copies nothing: each head has written its columns in place." }, () => [
      paragraph("Each head looks elsewhere. The marked one is the head of this tour."), headsTable()]),
    step("output", "Output projection", { shape: `o [T, dim] = ${x}`, equation: "x = x + Wo z", code: [CODE.output, CODE.add], moves: `Wo is ${times(data.dim, data.heads * D)}. The result is added to x, the stream that runs through all layers.` }, () => [
      element("h3", {}, "what attention adds"), rowsOf(stepRows("o")), data.steps.middle ? element("h3", {}, "x after it") : null, data.steps.middle ? rowsOf(stepRows("middle")) : null]),
    step("cache", "The cache grows", { shape: `K, V [positions, G, d]: one more position of ${times(data.kv_heads, D)} each`, code: [CODE.store, CODE.page], moves: "K is transposed once, on its way into the page: 16 positions lie side by side. V stays in rows. What is in the cache is never written again." }, () => [
      paragraph(`A new token needs the keys and values of all tokens before it. They are kept: ${data.cache_sum}.`), cacheTable(), paragraph("The same model with other attention:"), cacheSizes()]),
    data.steps.ffn_norm || data.steps.act || isMoe ? step("ffn", "Feed-forward", { shape: `h ${x} → ${times(N, data.hidden)} → ${x}`, equation: isMoe ? "x = x + Σ weight · expert(norm(x))" : data.gated ? "x = x + Wdown (act(Wgate h) · (Wup h)),  h = norm(x)" : "x = x + Wdown act(Wup h),  h = norm(x)", code: isMoe ? [CODE.experts, CODE.ffn, CODE.add] : [CODE.ffn, CODE.add],
      moves: `Its matrices are the largest of the layer: ${isMoe ? `${data.experts_used} of ${data.experts} experts are read for each token.` : `${data.gated ? 3 : 2} of ${times(data.hidden, data.dim)}.`}` }, () => [
      paragraph("Each token is changed by itself here: nothing passes between tokens."),
      ...[["act", "what Wdown reads"], ["router", "weight of each expert"], ["down", "what feed-forward adds"], ["experts", "what the experts add"], ["out", "x after the layer"]].filter(([name]) => data.steps[name]).flatMap(([name, title]) => [element("h3", {}, title), rowsOf(stepRows(name))])]) : null,
    step("logits", "Logits", { shape: `logits [vocab] = ${grouped(data.vocab)}, of the last token only`, equation: "logits = Whead norm(x)", code: [CODE.logits], moves: `All ${data.n_layers} layers do the same with their own weights. Then the last row of x meets every row of Whead.` }, () => [
      paragraph("A logit says how well a token would follow. Softmax over the whole vocabulary makes a probability of it."), logitTable()]),
    step("sampling", "Sampling", { shape: `one token of ${grouped(data.vocab)}`, equation: "p ~ exp(logit / T)", code: [CODE.sample], moves: "Only the candidates that the sampler needs are sorted." }, () => [
      paragraph("Temperature 0 always takes the largest logit. A small T prefers the probable, a large one makes all more equal. Among the ten above:"), temperatureTable()]),
    ALL > N ? step("next", "The next token", { shape: `x [1, dim] = ${times(1, data.dim)}`, code: [CODE.embed], moves: `One row goes through all layers. The cache supplies the ${N} others.` }, () => [
      paragraph(`This run chose `, token(data.tokens[N][1]), `. It becomes the token at position ${N}, and the walk begins again. The run continued with: `, ...data.tokens.slice(N).map(([, text]) => token(text)))]) : null,
  ].filter((s) => s);
  steps.forEach((s, i) => s.querySelector("h2").prepend(`${i + 1}. `));
  return [...steps, paragraph("Dropout is absent at inference: it drops values at random in training only.")];
}

/* ---- the page ------------------------------------------------------------------------------- */

function redraw() {
  strips = [];
  document.documentElement.classList.toggle("nobos", !state.bos);
  for (const b of document.querySelectorAll("#follow button")) b.setAttribute("aria-pressed", String(Number(b.value) === state.at));
  drawn.forEach((f) => f());
}

function follow(i) {
  state.at = i;
  redraw();
}

function followKeys(event) {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key], buttons = [...document.querySelectorAll("#follow button")].filter((b) => b.offsetParent);
  const at = buttons.indexOf(document.activeElement) + (move || 0);
  if (!move || !buttons[at]) return;
  event.preventDefault();
  buttons[at].focus();
  follow(Number(buttons[at].value));
}

function start() {
  const bos = element("input", { type: "checkbox", id: "bos", checked: true, onchange: (e) => { state.bos = e.target.checked; if (!state.at && !state.bos) state.at = N - 1; redraw(); } });
  document.body.prepend(pageHeader("Guided tour",
    element("span", { id: "follow", role: "group", "aria-label": "the token to follow", onkeydown: followKeys }, "follow ",
      ...data.tokens.slice(0, N).map((t, i) => element("button", { type: "button", value: i, class: `token ${i === 0 && data.has_bos ? "bos" : ""}`, onclick: () => follow(i) }, label(i)))),
    data.has_bos ? element("label", {}, bos, " show BOS") : null));
  const sections = [element("h2", { id: "walk" }, "One token through one layer"), ...walk(), ...drawings(), ...examples(), ...experiments()];
  const titles = sections.filter((s) => s.id && s.querySelector("h2"));
  document.body.append(element("main", { class: "tour" },
    paragraph(`What happens when ${data.model} reads “${data.tokens.slice(data.has_bos ? 1 : 0, N).map((t) => t[1].replaceAll("·", " ")).join("").trim()}” and continues it. Every number on this page comes from that run: layer ${data.layer} of ${data.n_layers}, head ${data.head} of ${data.heads}. Beside it stands the line of tern that computes it.`),
    paragraph(`Letters: T tokens (${N}), dim ${data.dim}, H heads (${data.heads}), G KV heads (${data.kv_heads}), d numbers in a head (${D}).`),
    element("nav", { "aria-label": "steps" }, element("ol", {}, ...titles.map((s) => element("li", {}, element("a", { href: `#${s.id}` }, s.querySelector("h2").textContent.replace(/^\d+\. /, "")))))),
    ...sections));
  redraw();
  onTheme.push(redraw);
}

start();
