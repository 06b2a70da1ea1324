/* Tokens x layers: what each layer would say next. Hover or focus shows the five most probable words of
 * a cell; arrow keys move. */

function text(...parts) {
  return parts.map((p) => (Array.isArray(p) ? token(p[0]) : p));
}

function describe(place, i, k) {
  const at = data.positions[i], [rank, p, ...top] = at.guesses[k], list = [];
  for (let j = 0; j < top.length; j += 2) list.push(...text(j ? ", " : "", [top[j]], ` ${(100 * top[j + 1]).toFixed(1)} %`));
  const stage = data.stages[k] === "embed" ? "the embedding alone" : `layer ${data.stages[k]}`;
  place.replaceChildren(...text("After ", [at.token], ` at position ${data.first + i}, ${stage} says: `), ...list,
    ...text(". The model says ", [at.says], `: place ${rank} here, ${(100 * p).toFixed(1)} %.`));
}

function start() {
  const about = element("p", { id: "about", "aria-live": "polite", class: "about" }, "Point at a cell, or move with the arrow keys.");
  const cells = [], body = element("tbody", {});
  const show = (i, k, focus) => {
    if (!cells[i] || !cells[i][k]) return;
    body.querySelectorAll("td[tabindex='0']").forEach((c) => c.setAttribute("tabindex", "-1"));
    cells[i][k].setAttribute("tabindex", "0");
    if (focus) cells[i][k].focus();
    describe(about, i, k);
  };
  const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  data.positions.forEach((at, i) => {
    cells.push(at.guesses.map(([rank, p, word, most], k) => {
      const cell = element("td", { tabindex: i || k ? -1 : 0, "data-p": most, "aria-label": `${word} ${(100 * most).toFixed(1)} %`,
        onmouseenter: () => describe(about, i, k), onfocus: () => show(i, k, false),
        onkeydown: (e) => {
          if (!move[e.key]) return;
          e.preventDefault();
          show(i + move[e.key][0], k + move[e.key][1], true);
        } }, token(word));
      if (word === at.says) cell.style.fontWeight = "600";
      return cell;
    }));
    body.append(element("tr", {}, element("th", { scope: "row" }, token(at.token)), ...cells[i]));
  });
  document.body.prepend(pageHeader("Logit lens", element("span", { class: "soft" }, `${data.model}: ${data.positions.length} tokens, ${data.stages.length} columns`), about));
  document.body.append(element("main", {},
    element("p", { class: "soft" }, "A row is a token of the text, a column what a layer leaves. A cell is the most probable next word if no layer followed: the stronger the colour, the more probable. Bold: it is what the model says in the end."),
    element("div", { class: "map", tabindex: 0, role: "region", "aria-label": "words by token and layer" }, element("table", { class: "words" },
      headings("token", ...data.stages), body))));
  const draw = () => cells.flat().forEach((cell) => paint(cell, Number(cell.dataset.p)));
  draw();
  onTheme.push(draw);
}

start();
