/* What every page of look shares: its data, blobs, colours and head. */

const data = JSON.parse(document.getElementById("data").textContent);

/* bytes of base64 text */
function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const blobs = new Map();

/* A blob of the file as numbers: kind is Int16Array or Float32Array. Decoded once. */
function blob(id, kind) {
  if (!blobs.has(id)) blobs.set(id, new kind(bytesOf(document.getElementById(id).textContent).buffer));
  return blobs.get(id);
}

/* A token keeps its place in a line, whatever its letters: its direction ends with it. */
function token(text) {
  return element("bdi", { class: "token" }, text);
}

/* The head of a table: a column a name */
function headings(...names) {
  return element("thead", {}, element("tr", {}, ...names.map((n) => element("th", { scope: "col" }, n))));
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/* One hue that gets stronger, from the background: x in 0 .. 1. Returns [r, g, b]. */
const STEPS = {
  light: [[255, 255, 255], [204, 225, 245], [120, 176, 226], [38, 112, 188], [8, 48, 107]],
  dark: [[24, 24, 24], [58, 40, 88], [138, 56, 112], [226, 112, 74], [253, 231, 140]],
};
function shade(x) {
  const steps = STEPS[isDark() ? "dark" : "light"];
  const at = Math.min(Math.max(x, 0), 1) * (steps.length - 1), i = Math.min(Math.floor(at), steps.length - 2);
  return steps[i].map((c, k) => Math.round(c + (steps[i + 1][k] - c) * (at - i)));
}

/* Negative orange, positive blue, zero the background: x in -1 .. 1. */
function shadeSigned(x) {
  const zero = isDark() ? [24, 24, 24] : [255, 255, 255];
  const end = x < 0 ? (isDark() ? [245, 150, 60] : [196, 88, 4]) : isDark() ? [90, 170, 255] : [8, 72, 150];
  const t = Math.min(Math.abs(x), 1);
  return zero.map((c, k) => Math.round(c + (end[k] - c) * t));
}

/* Gives e the colour of x on a scale, and an ink that can be read on it. */
function paint(e, x, scale = shade) {
  const [r, g, b] = scale(x);
  e.style.background = `rgb(${r},${g},${b})`;
  e.style.color = 0.3 * r + 0.6 * g + 0.1 * b > 130 ? "#111" : "#fff";
}

/* All colours of a scale, so that drawing a cell is looking one up: [256] of 0xAABBGGRR */
function lookup(scale, from, to) {
  const list = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const [r, g, b] = scale(from + ((to - from) * i) / 255);
    list[i] = 0xff000000 | (b << 16) | (g << 8) | r;
  }
  return list;
}

function format(x, digits = 3) {
  if (!Number.isFinite(x)) return x < 0 ? "-∞" : "∞";
  return Math.abs(x) >= 1000 ? x.toFixed(0) : x.toFixed(digits);
}

function signed(x, digits) {
  return (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
}

/* Titles of these columns become buttons that sort the rows: by data-value, else by the number or text
 * of the cell; numbers first from large to small. */
function sortable(table, columns) {
  const titles = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const value = (row, i) => {
    const text = row.cells[i].dataset.value ?? row.cells[i].textContent;
    return text === "" || isNaN(text) ? text : Number(text);
  };
  const sort = (i) => {
    const up = titles[i].getAttribute("aria-sort") === "descending", sign = up ? 1 : -1;
    titles.forEach((t) => t.removeAttribute("aria-sort"));
    titles[i].setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = [...body.rows].map((row) => [value(row, i), row]);
    order.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
    body.append(...order.map(([, row]) => row));
  };
  for (const i of columns) titles[i].replaceChildren(element("button", { type: "button", class: "sort", onclick: () => sort(i) }, titles[i].textContent));
}

function save(name, canvas) {
  canvas.toBlob((png) => {
    const link = element("a", { href: URL.createObjectURL(png), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

/* The head of a page: what it is, and the switch of the theme */
function pageHeader(title, ...parts) {
  return element("header", {}, element("h1", {}, title), ...parts,
    element("button", { type: "button", id: "theme", onclick: switchTheme }, "light / dark"));
}
