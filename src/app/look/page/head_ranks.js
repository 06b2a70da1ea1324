/* What each head is worth: the change of the loss when it is switched off, as a map of layers x heads
 * and as a table that can be sorted. Mouse, focus and arrow keys choose a head in both. */

const ranked = data.heads.map(([layer, head, loss], i) => ({ name: `${layer}.${head}`, rank: i + 1, layer, head, loss, change: loss - data.loss }));
const LARGEST = Math.max(...ranked.map((h) => Math.abs(h.change)), 1e-12);
const layers = [...new Set(ranked.map((h) => h.layer))].sort((a, b) => a - b);
const WIDEST = Math.max(...ranked.map((h) => h.head)) + 1;
const at = new Map(ranked.map((h) => [h.name, h]));
const cells = new Map(), rows = new Map(); /* name: element */

function words(h) {
  const what = h.change > 0 ? "The text is expected less without it" : h.change < 0 ? "The text is expected more without it" : "The loss is the same without it";
  return `Head ${h.name} is number ${h.rank} of ${ranked.length}. ${what}: loss ${h.loss.toFixed(6)}, change ${signed(h.change, 6)} nats a token.`;
}

function choose(h, focus) {
  document.querySelectorAll(".chosen").forEach((e) => e.classList.remove("chosen"));
  cells.forEach((c) => c.setAttribute("tabindex", "-1"));
  const cell = cells.get(h.name), row = rows.get(h.name);
  cell.setAttribute("tabindex", "0");
  cell.classList.add("chosen");
  row.classList.add("chosen");
  document.getElementById("about").textContent = words(h);
  if (focus) cell.focus();
}

/* Brings the row of a head into sight, in its own box. */
function showRow(h) {
  const row = rows.get(h.name), box = row.closest(".scroll");
  box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

function key(e, h) {
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key] || [0, 0];
  if (e.key === "Enter" || e.key === " ") showRow(h);
  else if (!down && !right) return;
  e.preventDefault();
  const next = at.get(`${layers[layers.indexOf(h.layer) + down]}.${h.head + right}`);
  if (next) choose(next, true);
}

function map() {
  const cellOf = (layer, i) => {
    const h = at.get(`${layer}.${i}`);
    if (!h) return element("td", {});
    const cell = element("td", { class: "number", "data-head": h.name, tabindex: h.rank === 1 ? 0 : -1, "aria-label": words(h), onmouseenter: () => choose(h, false),
      onclick: () => { choose(h, true); showRow(h); }, onfocus: () => choose(h, false), onkeydown: (e) => key(e, h) }, signed(h.change, 2));
    cells.set(h.name, cell);
    return cell;
  };
  return element("table", { class: "square", id: "map" }, headings("layer \\ head", ...Array.from({ length: WIDEST }, (_, i) => String(i))), element("tbody", {}, ...layers.map((l) =>
    element("tr", {}, element("th", { scope: "row" }, String(l)), ...Array.from({ length: WIDEST }, (_, i) => cellOf(l, i))))));
}

function rankTable() {
  const table = element("table", { id: "ranks" }, headings("head", "rank", "loss", "change"), element("tbody", {}, ...ranked.map((h) => {
    const row = element("tr", { onclick: () => choose(h, false) }, element("th", { scope: "row", "data-value": h.layer * WIDEST + h.head }, h.name), element("td", { class: "number" }, String(h.rank)),
      element("td", { class: "number" }, h.loss.toFixed(6)), element("td", { class: "number", "data-value": h.change }, signed(h.change, 6)));
    rows.set(h.name, row);
    return row;
  })));
  sortable(table, [0, 1, 2, 3]);
  return table;
}

function start() {
  document.body.prepend(pageHeader("What each head is worth", element("span", { class: "soft" }, `${data.model}: ${ranked.length} heads, ${data.scored} tokens, loss ${data.loss.toFixed(6)} nats a token with all heads`),
    element("p", { id: "about", class: "about", "aria-live": "polite" }, "Point at a head, or move with the arrow keys.")));
  document.body.append(element("main", {},
    element("p", { class: "soft" }, `Each head is switched off alone${data.mean_over ? `: its output becomes its mean over ${data.mean_over}` : ": it writes zeros"}. A number is the change of the loss. Blue heads help with this text; without orange ones it is expected more.`),
    element("div", { class: "map", role: "region", tabindex: 0, "aria-label": "change of the loss by layer and head" }, map()),
    element("h2", {}, "Ranks"), element("p", { class: "soft" }, "The head that costs most is first. A title of a column sorts by it."), element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "ranks" }, rankTable()),
    element("h2", {}, "The text"), element("p", { id: "text" }, ...data.text.map(token), data.scored + 1 > data.text.length ? " …" : null)));
  const draw = () => cells.forEach((cell, name) => paint(cell, at.get(name).change / LARGEST, shadeSigned));
  draw();
  onTheme.push(draw);
}

start();
