/* Worked examples of the tour: the numbers are those of tern_zoo, computed when the page was written. Each names the
 * test in tests/cli/test_look_tour.py that holds it to numpy. */

const vector = (x, digits) => `[${x.map((c) => number(c, Number.isInteger(c) ? 0 : digits)).join(" ")}]`;
const cut = (list, n) => Array.from({ length: list.length / n }, (_, i) => slice(list, i, n));

/* Named rows of vectors: [[name, [x, ...]], ...] */
function vectors(title, rows, digits = 3) {
  return element("figure", { class: "vectors" }, element("figcaption", {}, title),
    element("table", {}, element("tbody", {}, ...rows.map(([name, x]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", { class: "number" }, vector(x, digits)))))));
}

/* The largest difference of two lists */
const apart = (a, b) => Math.max(...a.map((x, i) => Math.abs(x - b[i])));

function agreement(list, test) {
  const most = Math.max(...list.map((x) => apart(x.naive, x.engine)));
  return element("p", { class: "soft" }, `The zoo and the engine's kernel agree ${most ? `within ${most.toExponential(0)}` : "in all digits of this page"}. `, element("code", {}, test));
}

/* Scores q . k * scale of head h in sequence 0, as rows; masked ones are null */
function scoresOf(example, scale, mask) {
  const [, rows, keys, , , d] = example.sizes;
  return Array.from({ length: rows }, (_, i) => Array.from({ length: keys }, (_, j) => (mask(i, j) ? null : dot(slice(example.q, i, d), slice(example.k, j, d)) * scale)));
}

const tokenNames = (rows, name = "token") => rows.map((x, i) => [`${name} ${i + 1}`, x]);

function exampleSection(id, title, ...body) {
  return element("section", { id, class: "example" }, element("h2", {}, title), ...body);
}

function exampleA() {
  const e = data.examples, shown = (x, scale) => [
    vectors("scores", tokenNames(scoresOf(x, scale, (i, j) => j > i))),
    vectors("weights", tokenNames(cut(x.weights, 3))), vectors("outputs", tokenNames(cut(x.engine, 2)))];
  return exampleSection("example-a", "(a) Three tokens, causal",
    paragraph("Q and K are the same three vectors. Each token sees itself and those before it."),
    element("div", { class: "layer" }, vectors("Q = K", tokenNames(cut(e.a.q, 2))), vectors("V", tokenNames(cut(e.a.v, 2)))),
    element("h3", {}, "without scale"), element("div", { class: "layer" }, ...shown(e.a, 1)),
    element("h3", {}, "scaled by 1/√2"), element("div", { class: "layer" }, ...shown(e.a_scaled, Math.SQRT1_2)),
    agreement([e.a, e.a_scaled], "test_example_a_three_tokens"));
}

function exampleB() {
  const x = data.examples.b;
  return exampleSection("example-b", "(b) Two tokens without a mask",
    paragraph("Q, K and V are the identity. Both tokens see both, as in an encoder. The engine is causal, so here it computes each row as the last of two."),
    element("div", { class: "layer" }, vectors("scaled scores", tokenNames(scoresOf(x, Math.SQRT1_2, () => false)), 2), vectors("weights", tokenNames(cut(x.weights, 2)), 2), vectors("outputs", tokenNames(cut(x.engine, 2)), 2)),
    agreement([x], "test_example_b_no_mask"));
}

function exampleC() {
  const x = data.examples.c, s = slice(scoresOf(x, 1, () => false)[0], 0, 3);
  return exampleSection("example-c", "(c) A masked key",
    paragraph("The mask M is added to the scores: 0 leaves a score, −∞ removes it, because exp(−∞) = 0. The others share what it would have had."),
    element("div", { class: "layer" }, vectors("one row", [["scores", s], ["M", [0, 0, -Infinity]], ["scores + M", [s[0], s[1], -Infinity]], ["weights", x.weights]], 2)),
    paragraph(element("span", { class: "soft" }, "The engine adds no M: it does not read a masked key at all.")), agreement([x], "test_example_c_a_masked_key"));
}

function exampleD() {
  const e = data.examples;
  return exampleSection("example-d", "(d) Heads side by side",
    paragraph("Two heads give [1 0] and [0 1]. Side by side they are one vector, and Wo mixes them."),
    element("div", { class: "layer" }, vectors("heads", [["head 1", slice(e.d.engine, 0, 2)], ["head 2", slice(e.d.engine, 1, 2)], ["z", e.d.engine]]), vectors("Wo [4, 2]", tokenNames(cut(e.wo, 2), "row")), vectors("projected", [["z Wo", e.projected]])),
    agreement([e.d], "test_example_d_heads_side_by_side"));
}

function exampleE() {
  const x = data.examples.e;
  return exampleSection("example-e", "(e) MQA: one key and value for all heads",
    paragraph("The queries differ, and there is one key. Its weight is 1 for every query, so both heads give its value."),
    element("div", { class: "layer" }, vectors("queries", [["head 1", slice(x.q, 0, 2)], ["head 2", slice(x.q, 1, 2)]]), vectors("shared", [["K", x.k], ["V", x.v]]), vectors("outputs", [["head 1", slice(x.engine, 0, 2)], ["head 2", slice(x.engine, 1, 2)]])),
    agreement([x], "test_example_e_one_kv_head"));
}

function exampleF() {
  const x = data.examples.f;
  return exampleSection("example-f", "(f) GQA: 8 heads, 2 KV heads",
    paragraph("Heads 1 to 4 read the first KV head, heads 5 to 8 the second."),
    element("div", { class: "layer" }, vectors("K = V", [["KV head 1", slice(x.v, 0, 2)], ["KV head 2", slice(x.v, 1, 2)]]), vectors("outputs", tokenNames(cut(x.engine, 2), "head"))),
    agreement([x], "test_example_f_groups"));
}

/* A batch in ten steps, shown for the first sequence and head */
function exampleG() {
  const e = data.examples, g = e.g, row = (list, n, count = 3) => cut(list.slice(0, n * count), n), words = ["The", "cat", "sat"];
  const named = (rows) => rows.map((x, i) => [words[i], x]), first = [0, 1, 2].map((i) => g.q.slice(8 * i, 8 * i + 4));
  const scores = first.map((q) => first.map((k) => dot(q, k)));
  const steps = [
    ["Tokens", "(2, 3)", "“The cat sat” and “A dog ran”: two sequences of three tokens.", null],
    ["Embedding", "(2, 3) → (2, 3, 4)", "x = 1 … 24, row after row.", named(row(e.x, 4))],
    ["Projection", "(2, 3, 4) → (2, 3, 8)", "q = x W, with W[0][j] = 0.5 − 0.1 (j + 1), W[1][j] = 0.1 (j + 1) − 0.25, and zeros below. K and V use the same W here.", named(row(g.q, 8))],
    ["Split into heads", "(2, 3, 8) → (2, 3, 2, 4)", "No number moves: head 1 is the columns 0 to 3, head 2 the columns 4 to 7.", [["The, head 1", g.q.slice(0, 4)], ["The, head 2", g.q.slice(4, 8)]]],
    ["Heads first", "(2, 3, 2, 4) → (2, 2, 3, 4)", "Each head sees its own three rows. tern reads them where they are, with a stride. Head 1:", named(first)],
    ["Scores", "(2, 2, 3, 4) → (2, 2, 3, 3)", "q · k of every pair, head 1:", named(scores)],
    ["Scale", "(2, 2, 3, 3)", "times 1/√4:", named(scores.map((r) => r.map((x) => x / 2)))],
    ["Mask and softmax", "(2, 2, 3, 3)", "Later tokens are masked. Each row sums to 1.", named(row(g.weights, 3))],
    ["Weighted sum", "(2, 2, 3, 3) → (2, 2, 3, 4)", "The weights times V, head 1:", named([0, 1, 2].map((i) => g.engine.slice(8 * i, 8 * i + 4)))],
    ["Heads side by side", "(2, 2, 3, 4) → (2, 3, 8)", "Both heads of a token stand in one row again.", named(row(g.engine, 8))],
  ];
  return exampleSection("example-g", "(g) A batch through two heads, in ten steps",
    element("ol", { class: "steps" }, ...steps.map(([name, shape, text, rows]) => element("li", {}, element("strong", {}, name), " ", element("code", {}, shape), paragraph(text), rows ? vectors("", rows) : null))),
    agreement([g], "test_example_g_a_batch"));
}

function exampleWrong() {
  const x = data.examples.wrong;
  return exampleSection("example-wrong", "Tables that are wrong",
    paragraph("Tutorials print wrong weights for such tables: 0.4 0.6 where softmax gives ", element("strong", {}, vector(x.weights, 3).slice(1, -1)), ". These are the weights of two scores that differ by 0.3, here 0.2 and 0.5. Every weight on this page is computed."),
    agreement([x], "test_wrong_tables"));
}

function examples() {
  return [element("h2", { id: "examples" }, "Worked examples"), paragraph("Small enough for pen and paper. src/model/zoo.c, written as papers define attention, and the engine's own kernel computed them when this page was written."),
    exampleA(), exampleB(), exampleC(), exampleD(), exampleE(), exampleF(), exampleG(), exampleWrong()];
}
