/* Drawings of the tour, made from the model's config. */

/* A box with a name and a size at (x, y), its middle */
function box(x, y, width, name, size, kind = "") {
  return svg("g", { class: `box ${kind}` }, svg("rect", { x: x - width / 2, y: y - 17, width, height: 34, rx: 6 }),
    svg("text", { x, y: size ? y - 2 : y + 4 }, name), size ? svg("text", { x, y: y + 11, class: "size" }, size) : null);
}

/* An arrow from one point down to another */
function wire(x1, y1, x2, y2) {
  return svg("path", { class: "wire", d: `M ${x1} ${y1} L ${x2} ${y2 - 5} M ${x2 - 3} ${y2 - 8} L ${x2} ${y2 - 2} L ${x2 + 3} ${y2 - 8}` });
}

/* MatMul, scale, mask, softmax, MatMul of one head */
function drawAttention() {
  const rows = [["MatMul", `scores ${times(N, N)}`], ["Scale", `· ${number(data.scale, 4)}`], ["Mask", "−∞ for later keys"], ["Softmax", "each row sums to 1"], ["MatMul", `z ${times(N, D)}`]];
  const y = (i) => 80 + 52 * i;
  return element("figure", {}, picture(300, 325, "attention of one head: MatMul, scale, mask, softmax, MatMul",
    box(60, 22, 84, "Q", times(N, D), "data"), box(150, 22, 84, "K", times(N, D), "data"), box(240, 22, 84, "V", times(N, D), "data"),
    wire(60, 39, 90, y(0) - 17), wire(150, 39, 120, y(0) - 17), svg("path", { class: "wire", d: `M 240 39 L 240 ${y(4)} L 180 ${y(4)} M 186 ${y(4) - 3} L 180 ${y(4)} L 186 ${y(4) + 3}` }),
    ...rows.map(([name, size], i) => box(105, y(i), 140, name, size)), ...[0, 1, 2, 3].map((i) => wire(105, y(i) + 17, 105, y(i + 1) - 17))),
    element("figcaption", {}, "one head"));
}

/* Heads to the output projection; of many heads the first and the last are drawn. */
function drawHeads() {
  const many = data.heads > 8, shown = many ? 8 : data.heads, width = 76, total = Math.max(shown * width, 240);
  const name = (i) => (many && i === shown - 2 ? "…" : `head ${many && i === shown - 1 ? data.heads - 1 : i}`), x = (i) => total / 2 + (i - (shown - 1) / 2) * width;
  return element("figure", {}, picture(total, 245, "heads side by side, then the output projection",
    ...Array.from({ length: shown }, (_, i) => svg("g", {}, box(x(i), 24, width - 8, name(i), name(i) === "…" ? "" : times(N, D)), wire(x(i), 41, total / 2 + (i - (shown - 1) / 2) * 24, 80))),
    box(total / 2, 97, Math.max(shown * 26, 190), "side by side", times(N, data.heads * D), "data"), wire(total / 2, 114, total / 2, 143),
    box(total / 2, 160, 190, "Wo", times(data.dim, data.heads * D)), wire(total / 2, 177, total / 2, 206), box(total / 2, 223, 190, "added to x", times(N, data.dim), "data")),
    element("figcaption", {}, `${data.heads} heads to the output projection`));
}

/* Which query head reads which KV head */
function drawGroups(name, kvHeads) {
  const heads = data.heads, step = heads > 16 ? 12 : 34, r = heads > 16 ? 4 : 12, total = Math.max(heads * step + 16, 150), group = heads / kvHeads;
  const x = (h) => total / 2 + (h - (heads - 1) / 2) * step, kv = (g) => x(g * group + (group - 1) / 2), all = (n, f) => Array.from({ length: n }, (_, i) => f(i));
  return element("figure", {}, picture(total, 112, `${name}: ${heads} query heads read ${kvHeads} KV heads`,
    ...all(heads, (h) => svg("line", { x1: x(h), y1: 24, x2: kv(Math.floor(h / group)), y2: 88, class: "wire" })),
    ...all(heads, (h) => svg("g", { class: "box" }, svg("circle", { cx: x(h), cy: 20, r }), heads > 16 ? null : svg("text", { x: x(h), y: 24 }, String(h)))),
    ...all(kvHeads, (g) => svg("g", { class: "box data" }, svg("rect", { x: kv(g) - r, y: 92 - r, width: 2 * r, height: 2 * r, rx: 3 }), heads > 16 ? null : svg("text", { x: kv(g), y: 96 }, String(g))))),
    element("figcaption", {}, `${name}: ${kvHeads} KV head${kvHeads > 1 ? "s" : ""}, ${grouped(2 * kvHeads * D * 2)} bytes a position and layer`));
}

/* What kinds of attention see, keep, cost and are for. Bytes: K and V in f16, one layer of this model's heads. */
function kindsTable() {
  const T = 4096, W = data.window || 512, bytes = (g) => `${grouped(2 * g * D * 2)} a position`, pairs = (n) => `${(n * data.heads * 2 * D / 1e9).toFixed(1)} G`;
  const own = data.kv_heads === data.heads ? "MHA" : data.kv_heads === 1 ? "MQA" : "GQA", mark = (name) => (name === own ? `${name} (this model)` : name);
  const causal = (T * (T + 1)) / 2, band = W * T - (W * (W - 1)) / 2, g = own === "GQA" ? data.kv_heads : data.heads % 4 ? 1 : data.heads / 4, each = "its own K and V";
  const rows = [
    ["encoder", "all", each, "none: all at once", pairs(T * T), "understanding whole texts", "Devlin et al. 2018, BERT"],
    ["causal", "itself and earlier", each, bytes(data.heads), pairs(causal), "writing, token by token", "Vaswani et al. 2017, Attention Is All You Need"],
    [mark("MHA"), "itself and earlier", each, bytes(data.heads), pairs(causal), "most freedom, largest cache", "Vaswani et al. 2017"],
    [mark("MQA"), "itself and earlier", `${data.heads} share one K and V`, bytes(1), pairs(causal), "smallest cache, fast decoding", "Shazeer 2019, Fast Transformer Decoding"],
    [mark("GQA"), "itself and earlier", `${data.heads / g} share one K and V`, bytes(g), pairs(causal), "nearly MHA's quality, a part of its cache", "Ainslie et al. 2023, GQA"],
    [`window of ${W}`, `the last ${W}`, "as above", `at most ${W} positions`, pairs(band), "long texts at bounded memory", "Beltagy et al. 2020, Longformer; Jiang et al. 2023, Mistral 7B"],
  ];
  return element("div", { class: "map kinds" }, element("table", {},
    headings("attention", "keys a query sees", "query heads", "cache, bytes", `multiply-adds, ${grouped(T)} tokens`, "use", "paper"),
    element("tbody", {}, ...rows.map(([name, ...cells]) => element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((c) => element("td", {}, c)))))));
}

function drawings() {
  return [element("h2", { id: "drawings" }, "Drawings of this model"),
    paragraph("Attention is five operations. Every head does them with its own Q."),
    element("div", { class: "layer" }, drawAttention(), drawHeads()),
    paragraph("Query heads (circles) read KV heads (squares): as multi-head attention would have it, as this model does, and as multi-query attention would."),
    element("div", { class: "layer" }, drawGroups("MHA", data.heads), drawGroups("this model", data.kv_heads), drawGroups("MQA", 1)),
    element("h3", { id: "kinds" }, "Kinds of attention"), kindsTable(),
    paragraph(element("span", { class: "soft" }, "Bytes and multiply-adds (scores and weighted sum) are those of one layer with this model's heads. src/model/zoo.c has each kind as a function, and ./look --attn runs a model with it."))];
}
