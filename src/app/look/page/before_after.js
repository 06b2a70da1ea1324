/* What surgery did: the next token before and after, how both texts go on, and what was changed. */

const BEFORE = 0.45, AFTER = 0.85; /* strengths of the colours */

/* The options in words */
function changes({ ablate, mean_over, patch, from, steer, steer_from, steer_to, steer_layer, steer_by }) {
  const list = [], code = (text) => element("code", {}, text), by = steer_by ? [", times ", code(steer_by)] : [];
  const layer = steer_layer ? [", after layer ", code(steer_layer)] : [];
  if (ablate !== undefined) list.push(["Switched off: ", code(ablate), ...(mean_over ? [". Its values become their mean over ", code(mean_over)] : []), "."]);
  if (patch !== undefined) list.push(["Taken from the run over “", element("bdi", {}, from), "”: ", code(patch), "."]);
  if (steer !== undefined) list.push(["Added: the directions of ", code(steer), ...layer, ...by, "."]);
  if (steer_to !== undefined) list.push(["Added: the direction from “", element("bdi", {}, steer_from), "” to “", element("bdi", {}, steer_to), "”", ...layer, ...by, "."]);
  return list.map((parts) => element("li", {}, ...parts));
}

function editTable() {
  return element("table", {}, headings("layer", "operation", "positions", "columns", "its values are"), element("tbody", {}, ...data.edits.map(([layer, operation, added, first, n, positions]) =>
    element("tr", {}, element("th", { scope: "row" }, String(layer)), element("td", {}, operation), element("td", {}, positions ? positions.join(" to ") : "all"),
      element("td", { class: "number" }, n > 1 ? `${first} to ${first + n - 1}` : String(first)), element("td", {}, added ? "added to" : "replaced")))));
}

/* Two bars above each other: the probability before and after */
function bars(before, after, most) {
  const bar = (p, name) => element("span", { class: `bar ${name}`, style: `width:${((100 * p) / most).toFixed(2)}%` });
  return element("span", { class: "pair", "aria-hidden": "true" }, bar(before, "before"), bar(after, "after"));
}

function choiceTable() {
  const most = Math.max(...data.choices.map(([, , p, q]) => Math.max(p, q)), 1e-9);
  const table = element("table", { id: "choices" }, headings("token", "", "before", "after", "change"), element("tbody", {}, ...data.choices.map(([text, id, p, q]) => element("tr", {},
    element("th", { scope: "row", title: `id ${id}`, "data-value": id }, token(text)), element("td", { class: "chart" }, bars(p, q, most)),
    ...[p, q].map((x) => element("td", { class: "number", "data-value": x }, format(x, 4))), element("td", { class: "number", "data-value": q - p }, signed(q - p, 4))))));
  sortable(table, [0, 2, 3, 4]);
  return table;
}

/* The text and what follows it; from where the two part, tokens are marked. */
function continued(title, name) {
  const other = data[name === "before" ? "after" : "before"];
  let part = 0;
  while (part < data[name].length && data[name][part] === other[part]) part++;
  return element("section", { class: "text" }, element("h3", {}, element("span", { class: `key ${name}` }), title), element("p", { id: name },
    element("span", { class: "soft" }, ...data.text.map(token)), ...data[name].map((t, i) => {
      const e = token(t);
      if (i >= part) e.classList.add("apart");
      return e;
    })));
}

function start() {
  const first = (i) => data.choices.reduce((a, b) => (b[i] > a[i] ? b : a));
  document.body.prepend(pageHeader("Before and after", element("span", { class: "soft" }, data.model)));
  document.body.append(element("main", {},
    element("h2", {}, "What was changed"), element("ul", { id: "changes" }, ...changes(data.options)),
    element("details", {}, element("summary", {}, `Steps of the model that were changed: ${data.edits.length}`), element("div", { class: "scroll" }, editTable())),
    element("h2", {}, "The next token"),
    element("p", { id: "first" }, "Before it is ", token(first(2)[0]), ` ${format(100 * first(2)[2], 1)} %, after it is `, token(first(3)[0]), ` ${format(100 * first(3)[3], 1)} %. KL(before, after) is ${format(data.kl, 6)} nats.`),
    element("p", { class: "soft" }, element("span", { class: "key before" }), "before ", element("span", { class: "key after" }), "after. The ten most probable tokens of each run are shown. A title of a column sorts by it."),
    element("div", { class: "map" }, choiceTable()),
    element("h2", {}, "How the text goes on"),
    data.before.length + data.after.length ? element("div", { class: "texts" }, continued("before", "before"), continued("after", "after"))
      : element("p", { class: "soft" }, "This run continued with no token. -n 40 lets both models continue with 40.")));
  const draw = () => document.querySelectorAll(".bar, .key").forEach((e) => paint(e, e.classList.contains("before") ? BEFORE : AFTER));
  draw();
  onTheme.push(draw);
}

start();
