/* Markdown as elements. The text of a model never becomes markup: elements come from the rules here, and letters
 * only from put(parent, from, to), which appends text[from..to) of the source. */

/* The lines of text[from..), each with its place in the source */
function linesOf(text, from) {
  const lines = [];
  for (let at = from; at < text.length; ) {
    const end = text.indexOf("\n", at) < 0 ? text.length : text.indexOf("\n", at);
    lines.push({ text: text.slice(at, end), at });
    at = end + 1;
  }
  return lines;
}

/* ---- blocks ---- */

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]{0,40})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})(?:[-*+]|(\d{1,9})[.)])(?:[ \t]+|$)/;
const COLUMNS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

function cut(line, n) {
  return { text: line.text.slice(n), at: line.at + Math.min(n, line.text.length) };
}

function isTable(lines, i) {
  return lines[i].text.includes("|") && i + 1 < lines.length && lines[i + 1].text.includes("-") && COLUMNS.test(lines[i + 1].text);
}

function beginsBlock(lines, i) {
  const text = lines[i].text;
  return [FENCE, HEADING, RULE, QUOTE, ITEM].some((rule) => rule.test(text)) || isTable(lines, i);
}

/* The first line from i on for which stop(line index) holds */
function until(lines, i, stop) {
  while (i < lines.length && !stop(i)) i++;
  return i;
}

const blank = (line) => !line.text.trim();

function codeAt(lines, i, [, fence, language]) {
  const close = until(lines, i + 1, (k) => lines[k].text.trim().startsWith(fence) && !lines[k].text.trim().replaceAll(fence[0], ""));
  const begun = close === lines.length && close > i + 1 && fence.startsWith(lines[close - 1].text.trim() || " "); /* of a closing fence */
  return { kind: "code", language, body: lines.slice(i + 1, close - begun), to: Math.min(close + 1, lines.length) };
}

/* An item goes on with lines that are indented, also behind empty ones, and with lines of its paragraph. */
function itemAt(lines, i, [marker, , number]) {
  const width = marker.trimEnd() === marker ? marker.length + 1 : Math.min(marker.length, marker.trimEnd().length + 4);
  const indent = (k) => lines[k].text.search(/\S|$/);
  const to = until(lines, i + 1, (k) => {
    if (!blank(lines[k])) return indent(k) < Math.min(width, 2) && (blank(lines[k - 1]) || beginsBlock(lines, k));
    const next = until(lines, k, (n) => !blank(lines[n]));
    return next < lines.length && indent(next) < Math.min(width, 2);
  });
  const body = lines.slice(i, to).map((line, k) => cut(line, k ? Math.min(width, indent(i + k)) : width));
  return { kind: "item", list: number ? "ol" : "ul", number, body, to };
}

/* {kind, to: the line behind it, and what its builder needs} */
function blockAt(lines, i) {
  const text = lines[i].text;
  let m;
  if (blank(lines[i])) return { kind: "nothing", to: i + 1 };
  if ((m = FENCE.exec(text))) return codeAt(lines, i, m);
  if ((m = HEADING.exec(text))) return { kind: "heading", level: m[1].length, body: [cut(lines[i], m[0].length)], to: i + 1 };
  if (RULE.test(text)) return { kind: "rule", to: i + 1 };
  if (QUOTE.test(text)) {
    const to = until(lines, i, (k) => !QUOTE.test(lines[k].text));
    return { kind: "quote", body: lines.slice(i, to).map((line) => cut(line, QUOTE.exec(line.text)[0].length)), to };
  }
  if ((m = ITEM.exec(text))) return itemAt(lines, i, m);
  if (isTable(lines, i)) {
    const to = until(lines, i + 2, (k) => blank(lines[k]) || !lines[k].text.includes("|"));
    return { kind: "table", head: lines[i], body: lines.slice(i + 2, to), to };
  }
  const to = until(lines, i + 1, (k) => blank(lines[k]) || beginsBlock(lines, k));
  return { kind: "paragraph", body: lines.slice(i, to), to };
}

/* What stands between the bars of a row; a bar behind a backslash divides nothing */
function cellsOf(line) {
  const cells = [], bars = [...line.text.matchAll(/(?<!\\)\|/g)].map((m) => m.index);
  const ends = [...bars, line.text.length];
  let from = 0;
  for (const end of ends) {
    const text = line.text.slice(from, end), lead = text.search(/\S|$/);
    if (text.trim() || (from && end < line.text.length)) cells.push({ text: text.trim(), at: line.at + from + lead });
    from = end + 1;
  }
  return cells;
}

function rowOf(line, cell, put) {
  const row = element("tr", {});
  for (const part of cellsOf(line)) row.append(turned(inlineInto(element(cell, {}), [part], put)));
  return row;
}

/* Gives a block the direction of its letters, except within another, whose direction it has. Browsers look for it anew with
 * each child, so it comes last. */
function turned(block, depth = 0) {
  if (!depth) block.dir = "auto";
  return block;
}

const builders = {
  nothing: () => null,
  rule: () => element("hr", {}),
  heading: (b, put) => turned(inlineInto(element(`h${Math.min(b.level + 2, 6)}`, {}), b.body, put)),
  paragraph: (b, put, depth) => turned(inlineInto(element("p", {}), b.body, put), depth),
  quote: (b, put, depth) => turned(blocksInto(element("blockquote", {}), b.body, put, depth + 1)),
  item: (b, put, depth) => turned(blocksInto(element("li", {}), b.body, put, depth + 1)),
  table(b, put) {
    const body = element("tbody", {}, ...b.body.map((line) => rowOf(line, "td", put)));
    return element("div", { class: "wide", tabindex: 0 }, element("table", {}, element("thead", {}, rowOf(b.head, "th", put)), body));
  },
  code(b, put) {
    const code = element("code", { dir: "ltr" });
    const copy = element("button", { type: "button", onclick: () => copyText(code.textContent, copy) }, "Copy");
    const bar = element("div", { class: "bar" }, element("span", { class: "soft" }, b.language || "code"), copy);
    const box = element("div", { class: "code" }, bar, element("pre", { class: "wide", tabindex: 0 }, code));
    box.extend = growingLines(code, put);
    box.extend(b.body);
    return box;
  },
};

/* A function that shows more and more lines; only the last is made again. */
function growingLines(parent, put) {
  const tail = element("span", {});
  let shown = 0;
  return (lines) => {
    tail.replaceChildren();
    for (; shown < lines.length - 1; shown++) put(parent, lines[shown].at, lines[shown].at + lines[shown].text.length + 1);
    for (const line of lines.slice(shown)) put(tail, line.at, line.at + line.text.length);
    parent.append(tail);
  };
}

/* Appends a block. Items that follow each other are of one list. */
function placeBlock(parent, block, put, depth) {
  const made = builders[block.kind](block, put, depth);
  if (!made) return null;
  if (block.kind !== "item") return parent.appendChild(made);
  let list = parent.lastElementChild;
  if (list?.localName !== block.list) list = parent.appendChild(element(block.list, { start: block.number }));
  return list.appendChild(made);
}

function blocksInto(parent, lines, put, depth) {
  for (let i = 0; i < lines.length; ) {
    const block = depth < 8 ? blockAt(lines, i) : { kind: "paragraph", body: lines, to: lines.length };
    placeBlock(parent, block, put, depth);
    i = block.to;
  }
  return parent;
}

/* ---- within a paragraph ---- */

const SPECIAL = /[\\`*_~[]|https?:\/\//g;
const LINK = /\[((?:[^[\]\\\n]|\\.){0,400})\]\(\s*<?([^\s()<>]{1,2000}(?:\([^\s()]{0,200}\)[^\s()<>]{0,500})?)>?(?:\s+"[^"\n]{0,200}")?\s*\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`*\\|[\]{}]{1,2000}/y;
const WORD = /[\p{L}\p{N}]/u;
const MARKS = { "*": "em", "**": "strong", _: "em", __: "strong", "~~": "del" };

/* Lines as one text, whose parts can be put */
function joined(lines, put) {
  const starts = [];
  let n = 0;
  for (const line of lines) {
    starts.push(n);
    n += line.text.length + 1;
  }
  let first = 0; /* parts come in order */
  const putPart = (parent, from, to) => {
    while (starts[first + 1] <= from) first++;
    for (let k = first; k < lines.length && starts[k] < to; k++) {
      const a = Math.max(from, starts[k]), b = Math.min(to, starts[k] + lines[k].text.length + 1);
      if (a < b) put(parent, lines[k].at + a - starts[k], lines[k].at + b - starts[k]);
    }
  };
  return { text: lines.map((line) => line.text).join("\n"), put: putPart };
}

function inlineInto(parent, lines, put) {
  const s = joined(lines, put);
  inline(parent, s, 0, s.text.length, 0);
  return parent;
}

function runLength(text, at) {
  let end = at;
  while (text[end] === text[at]) end++;
  return end - at;
}

/* Where the mark that closes a part begins, or -1 */
function closing(text, mark, from, to) {
  for (let at = text.indexOf(mark, from); at >= 0 && at < to; ) {
    const end = Math.min(to, at + runLength(text, at)), n = end - at;
    const fits = n === mark.length || n > 2, behind = mark[0] !== "_" || !WORD.test(text[end] ?? "");
    if (fits && at > from && behind && !/\s/.test(text[at - 1])) return end - mark.length;
    at = text.indexOf(mark, end);
  }
  return -1;
}

function emphasis(s, at, to, depth, none) {
  const text = s.text, n = runLength(text, at), mark = text[at].repeat(Math.min(n, 2));
  const end = at + n, plain = { end };
  if (n > 3 || depth > 5 || !(mark in MARKS) || none.has(mark) || /\s/.test(text[end] ?? " ")) return plain;
  if (mark[0] === "_" && at && WORD.test(text[at - 1])) return plain;
  const from = at + mark.length, close = closing(text, mark, from, to);
  if (close < 0) none.add(mark);
  if (close < 0) return plain;
  return { end: close + mark.length, make: (parent) => inline(parent.appendChild(element(MARKS[mark], {})), s, from, close, depth + 1) };
}

function codeSpan(s, at, to, none) {
  const n = runLength(s.text, at), mark = "`".repeat(Math.min(n, 9)), from = at + n;
  if (n > 8 || none.has(mark)) return { end: from };
  let close = s.text.indexOf(mark, from);
  while (close >= 0 && runLength(s.text, close) !== n) close = s.text.indexOf(mark, close + runLength(s.text, close));
  if (close < 0 || close >= to) none.add(mark);
  if (close < 0 || close >= to) return { end: from };
  return { end: close + n, make: (parent) => s.put(parent.appendChild(element("code", { dir: "ltr" })), from, close) };
}

/* An address that may be followed, or null */
function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function anchor(href) {
  return element("a", { href, title: href, target: "_blank", rel: "noopener noreferrer" });
}

function link(s, at, to, depth) {
  LINK.lastIndex = at;
  const m = LINK.exec(s.text), href = m && at + m[0].length <= to && safeAddress(m[2]);
  if (!href) return { end: at + 1 };
  const from = s.text.indexOf("[", at) + 1;
  return { end: at + m[0].length, make: (parent) => inline(parent.appendChild(anchor(href)), s, from, from + m[1].length, Math.max(depth, 4) + 1, true) };
}

function address(s, at, to) {
  ADDRESS.lastIndex = at;
  const found = ADDRESS.exec(s.text.slice(0, to))?.[0].replace(/[.,;:!?)]+$/, ""), href = found && safeAddress(found);
  if (!href || (at && WORD.test(s.text[at - 1]))) return { end: at + 4 };
  return { end: at + found.length, make: (parent) => s.put(parent.appendChild(anchor(href)), at, at + found.length) };
}

/* What begins at a special letter: {end, make(parent)}; without make it is plain text. */
function specialAt(s, at, to, depth, none, inLink) {
  const c = s.text[at];
  if (c === "\\") return /[!-/:-@[-`{-~]/.test(s.text[at + 1] ?? "") ? { end: at + 2, make: (parent) => s.put(parent, at + 1, at + 2) } : { end: at + 1 };
  if (c === "`") return codeSpan(s, at, to, none);
  if (c === "h" || c === "[") return inLink ? { end: at + 1 } : c === "h" ? address(s, at, to) : link(s, at, to, depth);
  return emphasis(s, at, to, depth, none);
}

/* Puts s.text[from..to). `none`: marks that nothing closes in this part, so that no search is made twice */
function inline(parent, s, from, to, depth, inLink) {
  const none = new Set();
  let plain = from;
  for (let at = from; at < to; ) {
    SPECIAL.lastIndex = at;
    const m = SPECIAL.exec(s.text);
    if (!m || m.index >= to) break;
    const found = specialAt(s, m.index, to, depth, none, inLink);
    at = Math.min(found.end, to);
    if (!found.make) continue;
    s.put(parent, plain, m.index);
    found.make(parent);
    plain = at;
  }
  s.put(parent, plain, to);
}
