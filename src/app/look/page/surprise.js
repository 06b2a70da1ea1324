/* A text, each token on a colour that says how many bits it took; hover or focus says what the model
 * expected instead. */

const MOST_BITS = 12;
const CHUNK = 2000; /* tokens that are put into the page at a time */

function describe(place, [text, bits, ...expected]) {
  const list = [];
  for (let k = 0; k < expected.length; k += 2)
    list.push(k ? ", " : "", token(expected[k]), ` ${(100 * expected[k + 1]).toFixed(1)} %`);
  place.replaceChildren(token(text), ` took ${bits.toFixed(2)} bits (p = ${(2 ** -bits).toPrecision(3)}); expected: `, ...list);
}

/* A label shows spaces as middle dots; in the text they are spaces again. Each token keeps its place
 * in the line, whatever its letters. */
function put(place, about, entry) {
  const text = entry[0].replace(/^·+/, (dots) => " ".repeat(dots.length)), span = element("bdi", { tabindex: 0, class: "word", title: `${entry[1].toFixed(2)} bits` });
  span.textContent = text === "\\n" ? "⏎" : text;
  span.entry = entry;
  span.addEventListener("mouseenter", () => describe(about, entry));
  span.addEventListener("focus", () => describe(about, entry));
  paint(span, entry[1] / MOST_BITS);
  place.append(span);
  if (text === "\\n") place.append(element("br"));
}

function start() {
  const text = element("p", { id: "text", style: "max-width:90ch;line-height:1.9" }), about = element("p", { id: "about", "aria-live": "polite", class: "about" }, "Point at a token.");
  const most = [...data.tokens].sort((a, b) => b[1] - a[1]).slice(0, 20);
  document.body.prepend(pageHeader("Surprise", element("span", { class: "soft" },
    `${data.model}: ${data.bits_per_byte.toFixed(4)} bits per byte, perplexity ${data.perplexity.toFixed(3)}, ${data.tokens.length} tokens`), about));
  document.body.append(element("main", {},
    element("p", { class: "soft" }, "The stronger the colour, the less the model expected the token: its surprisal is -log2 of its probability, in bits."),
    text,
    element("h2", {}, "What surprised most"),
    element("table", {}, headings("token", "bits", "expected instead"),
      element("tbody", {}, ...most.map(([t, bits, e, p]) => element("tr", {}, element("th", { scope: "row" }, token(t)), element("td", { class: "number" }, bits.toFixed(2)),
        element("td", {}, token(e), ` ${(100 * p).toFixed(1)} %`)))))));
  let at = 0;
  const more = () => {
    for (const end = Math.min(at + CHUNK, data.tokens.length); at < end; at++) put(text, about, data.tokens[at]);
    if (at < data.tokens.length) setTimeout(more);
  };
  more();
  onTheme.push(() => text.querySelectorAll(".word").forEach((s) => paint(s, s.entry[1] / MOST_BITS)));
}

start();
