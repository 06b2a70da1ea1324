/* Experiments of the tour: done when the page was written. Each names its test in tests/cli/test_look_tour.py. */

function experiment(id, title, test, ...body) {
  return element("section", { id, class: "experiment" }, element("h2", {}, title), ...body, element("p", { class: "soft" }, "test: ", element("code", {}, test)));
}

function table(heads, rows) {
  return element("div", { class: "map" }, element("table", {}, headings(...heads),
    element("tbody", {}, ...rows.map(([name, ...cells]) => element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((c) => element("td", { class: "number" }, c)))))));
}

const small = (x) => (x === 0 ? "0" : Math.abs(x) < 0.001 ? x.toExponential(1).replace("-", "−") : number(x));

function experimentLast({ tokens, row, other, causal, bidirectional }) {
  const last = tokens[tokens.length - 1], rows = [["causal", causal], ["bidirectional", bidirectional]].filter(([, x]) => x);
  return experiment("last", "Change the last token", "test_changing_the_last_token",
    paragraph("The last token of ", ...tokens.map(token), " becomes ", token(other), ". With causal attention no number of an earlier row changes by a bit, in any layer. With bidirectional attention earlier rows see the last one, so they change."),
    table(["attention", "numbers that change", "largest change", `${tokens[row]} attends to ${last}`], rows.map(([name, x]) => [name, `${grouped(x.changed)} of ${grouped(x.of)}`, small(x.most), number(x.weight)])));
}

function experimentShift({ by, scores, later, most, change }) {
  return experiment("shift", `Shift all positions by ${by}`, "test_shifted_positions",
    paragraph(`RoPE turns q and k by their positions, so q · k depends on the distance only. At positions ${by}, ${by + 1}, … the scores stay, up to rounding: the largest change is ${small(change)}, and the largest score ${number(most, 1)}.`),
    table(["scores of the last row", ...scores.map((_, j) => label(j))], [["positions 0, 1, …", ...scores.map((x) => number(x))], [`positions ${by}, ${by + 1}, …`, ...later.map((x) => number(x))]]));
}

function experimentOrder({ without, with: turned, most }) {
  return experiment("order", "Leave out RoPE", "test_order_is_lost_without_rope",
    paragraph("Tokens 1 and 2, ", token(label(1)), " and ", token(label(2)), ", change places. Without RoPE a row is a sum over a set: its output stays, up to rounding. The order of words is lost. With RoPE the output changes."),
    table(["last row", "largest change of its output", "largest output"], [["without RoPE", small(without), number(most)], ["with RoPE", small(turned), number(most)]]));
}

function experimentRepeated({ values, naive, engine, naive_most, engine_most }) {
  const says = (same, x) => (same ? "the same bits" : `differ by ${small(x)}`);
  return experiment("repeated", "Repeat KV heads: MHA equals GQA", "test_repeated_kv_heads",
    paragraph(`Each of the ${data.kv_heads} KV heads is copied for its ${GROUP} query heads. That is MHA with ${data.heads} KV heads, and all ${grouped(values)} outputs stay. GQA saves the copies.`),
    table(["computed by", "GQA and MHA"], [["zoo, naive", says(naive, naive_most)], ["engine", says(engine, engine_most)]]));
}

function experimentBatches(batches) {
  return experiment("batches", "One by one, or at once", "test_one_by_one_or_at_once",
    paragraph("The sentence “The cat sat on the mat” is evaluated in batches of different sizes. The fingerprint is a hash of all logits. It is the same, so no bit differs."),
    table(["rows in a batch", "fingerprint", "rows of logits"], batches.map(([n, hash, rows]) => [String(n), hash, String(rows)])));
}

function experimentSaturation(rows) {
  return experiment("saturation", "Leave out 1/√d", "test_softmax_saturates_without_the_scale",
    paragraph("q and k are random, and each query meets 16 keys. The table has the largest of the 16 weights, as a mean over 256 rows. Equal weights would be 0.0625. Without the scale one key takes almost everything as d grows, and a model could hardly learn."),
    table(["d", "with 1/√d", "without"], rows.map(([d, ...x]) => [String(d), ...x.map((w) => number(w))])));
}

function experimentHeads({ tokens, loss, heads }) {
  const most = Math.max(...heads.map((h) => Math.abs(h[2]))), ranked = [...heads].sort((a, b) => b[2] - a[2]), layers = [...new Set(heads.map((h) => h[0]))];
  const place = element("div", { class: "map" });
  const cell = ([, , x]) => {
    const box = element("td", { class: "number cell" }, number(x, 2));
    paint(box, x / most, shadeSigned);
    return box;
  };
  const draw = () => place.replaceChildren(element("table", { class: "square" }, headings("layer \\ head", ...heads.filter((h) => h[0] === layers[0]).map((h) => String(h[1]))),
    element("tbody", {}, ...layers.map((l) => element("tr", {}, element("th", { scope: "row" }, String(l)), ...heads.filter((h) => h[0] === l).map(cell))))));
  drawn.push(draw);
  return experiment("switched", "Switch heads off, one by one", "test_heads_switched_off",
    paragraph("The sentence is ", ...tokens.map(token), `. With all heads its loss is ${number(loss)} nats a token. Each number is the change of the loss when one head writes zeros. Blue heads help with this sentence; without orange ones it is expected more.`),
    place, paragraph(`Head ${ranked[0][0]}.${ranked[0][1]} matters most here. One sentence says little about what a head does: this page claims no grammar that switching off does not show.`),
    paragraph(element("code", {}, `./look MODEL "She gave him a book" --ablate each`), " does the same."));
}

function experiments() {
  const x = data.experiments;
  return [element("h2", { id: "experiments" }, "Experiments"), paragraph("They were done with this model when the page was written."),
    x.last ? experimentLast(x.last) : null, x.shift ? experimentShift(x.shift) : null, x.order ? experimentOrder(x.order) : null, experimentRepeated(x.repeated),
    experimentBatches(x.batches), experimentSaturation(x.saturation), x.ablation ? experimentHeads(x.ablation) : null].filter((s) => s);
}
