/* How far two files of one model are apart: operations x layers, and the next token after each token. */

const strength = (d) => (d > 0 ? Math.min(Math.max(Math.log10(d) / 6 + 1, 0), 1) : 0);
const shown = (d) => (d === null ? "∞" : d === 0 ? "0" : d.toExponential(1));

function cellOf(x, text, title) {
  return element("td", { "data-x": x, class: "number heat", title }, text);
}

function start() {
  const layers = [...new Set(data.steps.map((s) => s[0]))], operations = [...new Set(data.steps.map((s) => s[1]))];
  const at = new Map(data.steps.map((s) => [`${s[0]} ${s[1]}`, s]));
  const rows = operations.map((o) => element("tr", {}, element("th", { scope: "row" }, o), ...layers.map((l) => {
    const s = at.get(`${l} ${o}`);
    return s ? cellOf(s[2] === null ? 1 : strength(s[2]), shown(s[2]), `most at token ${s[3]}, ${data.tokens[s[3]][0]}`) : element("td", {});
  })));
  const mean = data.tokens.reduce((sum, t) => sum + t[1], 0) / data.tokens.length, first = data.first;
  document.body.prepend(pageHeader("Two files of one model", element("span", { class: "soft" }, `${data.models[0]} (${data.types[0]}) and ${data.models[1]} (${data.types[1]})`)));
  document.body.append(element("main", {},
    element("p", { id: "first" }, first ? `The first step that differs by more than ${data.bound} of the row's largest value: layer ${first[0]}, ${first[1]}, token ${first[2]}, ` : `No step differs by more than ${data.bound} of the row's largest value.`,
      first ? token(data.tokens[first[2]][0]) : null),
    element("p", { id: "kl" }, `KL of the next token: mean ${mean.toFixed(6)} nats. The most probable token is the same after ${data.same} of ${data.tokens.length} tokens.`),
    element("h2", {}, "Largest difference, as a part of the row's largest value"),
    element("div", { class: "map", tabindex: 0, role: "region", "aria-label": "difference by operation and layer" }, element("table", {}, headings("operation", ...layers.map((l) => (l === data.n_layers ? "end" : `layer ${l}`))), element("tbody", {}, ...rows))),
    element("h2", {}, "KL of the next token, in nats"),
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "KL by token" }, element("table", {}, headings("after", "KL"), element("tbody", {}, ...data.tokens.map(([t, kl]) =>
      element("tr", {}, element("th", { scope: "row" }, token(t)), cellOf(strength(kl), shown(kl)))))))));
  const draw = () => document.querySelectorAll(".heat").forEach((cell) => paint(cell, Number(cell.dataset.x)));
  draw();
  onTheme.push(draw);
}

start();
