/* What is added to a logit, as bars by layer. A layer's line is its sum; opening it shows heads,
 * feed-forward, experts, biases and rounding. */

function bar(value, most) {
  const part = (50 * Math.min(Math.abs(value) / most, 1)).toFixed(2), [r, g, b] = shadeSigned(value < 0 ? -0.8 : 0.8);
  return element("span", { "aria-hidden": "true", style: "position:relative;display:inline-block;width:min(38vw,420px);height:12px;background:var(--panel);border:1px solid var(--line)" },
    element("span", { class: "bar", "data-sign": Math.sign(value), style: `position:absolute;top:0;bottom:0;width:${part}%;${value < 0 ? "right" : "left"}:50%;background:rgb(${r},${g},${b})` }));
}

function row(name, value, most) {
  return element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, bar(value, most)), element("td", { class: "number" }, value.toFixed(4)));
}

function table(terms, most) {
  return element("table", { class: "terms" }, headings("term", "bar", "value"),
    element("tbody", {}, ...terms.map(([name, , value]) => row(name, value, most))));
}

function group(title, terms, most, open) {
  const sum = terms.reduce((s, t) => s + t[2], 0);
  return element("details", { open, class: "layer-terms" },
    element("summary", { style: "cursor:pointer;white-space:nowrap" }, element("span", { style: "display:inline-block;min-width:6em" }, title), bar(sum, most), element("span", { class: "number" }, ` ${sum.toFixed(4)}`)),
    table(terms, most));
}

function start() {
  const groups = new Map();
  for (const t of data.terms) groups.set(t[1], [...(groups.get(t[1]) || []), t]);
  const largest = (list) => Math.max(1e-12, ...list.map(Math.abs));
  const sums = [...groups.values()].map((g) => g.reduce((s, t) => s + t[2], 0));
  const most = Math.max(largest(sums), largest(data.terms.map((t) => t[2])));
  const title = (g) => (g < 0 ? "input" : g === data.n_layers ? "output" : `layer ${g}`);
  document.body.prepend(pageHeader("Why this token", element("span", { class: "soft" }, data.model)));
  const sorted = [...data.terms].sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
  document.body.append(element("main", {},
    element("p", { id: "text" }, ...data.text.map((t) => token(t)), " → ", element("strong", { class: "token" }, data.token)),
    element("p", { id: "sum" }, `After position ${data.text.length - 1} the logit is ${data.logit.toFixed(4)}, the sum of ${data.terms.length} terms is ${data.sum.toFixed(4)}, the probability ${(100 * data.p).toFixed(2)} %.`),
    element("p", { class: "soft" }, "Each part of the model adds to the stream, and so directly to the logit. Norm scales are held at their values. What a head changes in later layers is not in its term. Blue raises the logit, orange lowers it."),
    element("h2", {}, "By layer"), ...[...groups].sort((a, b) => a[0] - b[0]).map(([g, terms]) => group(title(g), terms, most, false)),
    element("h2", {}, "The largest"), table(sorted.slice(0, 25), most)));
  onTheme.push(() => document.querySelectorAll(".bar").forEach((b) => {
    b.style.background = `rgb(${shadeSigned(Number(b.dataset.sign) * 0.8).join(",")})`;
  }));
}

start();
