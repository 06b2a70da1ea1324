/* The texts of an answer while they grow, and where its tokens stand in them. */

/* Where each token stands. A message has a thought and then a text. The server may have trimmed them, cut them at a stop
 * text or taken markers out, so a token's letters are looked for where those of the one before ended. */
class Places {
  constructor(message) {
    this.message = message;
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    this.pieces = []; /* what each token adds: whole characters */
    this.of = []; /* of each token: {i, part, from, to}; of one without letters from is to */
    this.parts = { thought: [], text: [] }; /* those with letters */
    [this.part, this.at] = message.begun ? ["text", message.begun.length] : ["thought", 0];
  }

  textOf(part) {
    return this.message[part] || "";
  }

  count() {
    return this.message.tokens?.length ?? 0;
  }

  piece(i) {
    for (let k = this.pieces.length; k <= i; k++) this.pieces.push(this.decoder.decode(rawBytes(this.message.tokens[k].bytes), { stream: true }));
    return this.pieces[i];
  }

  /* Places the tokens whose letters have arrived. `ended`: no more will come */
  advance(ended) {
    while (this.of.length < this.count()) {
      const i = this.of.length, found = this.find(this.piece(i), ended);
      if (!found) return;
      [this.part, this.at] = [found.part, found.to];
      this.of.push({ i, ...found });
      if (found.to > found.from) this.parts[found.part].push(this.of[i]);
    }
  }

  /* {part, from, to} of a piece; null: its letters have not come yet */
  find(piece, ended) {
    const over = this.part === "thought" && this.at >= this.textOf("thought").length;
    const found = !over && this.match(piece, this.part, this.at);
    if (found) return found;
    const next = over && this.textOf("text") && this.match(piece, "text", 0);
    if (next) return next;
    const rest = over ? this.textOf("text") : this.textOf(this.part).slice(this.at);
    if (piece && !ended && (piece.startsWith(rest) || piece.trimStart().startsWith(rest))) return null;
    return { part: this.part, from: this.at, to: this.at };
  }

  match(piece, part, at) {
    const text = this.textOf(part), short = at ? piece : piece.trimStart();
    for (const p of [piece, short]) if (p && text.startsWith(p, at)) return { part, from: at, to: at + p.length };
    const near = piece.trim().length > 1 ? text.slice(at, at + 16 + piece.length).indexOf(piece) : -1;
    return near < 0 ? null : { part, from: at + near, to: at + near + piece.length };
  }

  /* How much of a part can be shown: all, or what has its tokens */
  shown(part, ended) {
    const n = this.textOf(part).length;
    return ended || part !== this.part || !this.count() || n - this.at > 100 ? n : this.at;
  }

  /* The index in parts[part] of the first token that ends behind a letter */
  search(part, at) {
    const list = this.parts[part];
    let low = 0, high = list.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (list[mid].to <= at) low = mid + 1;
      else high = mid;
    }
    return low;
  }
}

/* A token on the page; its colour is of 0 to 9 nats of surprise. */
function tokenSpan(token, i, text) {
  return element("span", { class: "t", "data-i": i, "data-s": Math.min(9, Math.floor(-token.logprob)) || 0 }, text);
}

/* One part of a message as Markdown. Blocks are final once another follows; only the last is made again. */
class Flow {
  constructor(root, part, places) {
    this.root = root;
    this.part = part;
    this.places = places;
    this.done = 0; /* where the first block begins that is not final */
    this.open = null; /* the last block: {at, kind, node, and the language of code} */
    this.put = this.put.bind(this);
  }

  put(parent, from, to) {
    const text = this.places.textOf(this.part), list = this.places.parts[this.part], tokens = this.places.message.tokens;
    let at = from;
    for (let k = this.places.search(this.part, from); k < list.length && list[k].from < to; k++) {
      const a = Math.max(list[k].from, from), b = Math.min(list[k].to, to);
      if (a > at) parent.append(text.slice(at, a));
      parent.append(tokenSpan(tokens[list[k].i], list[k].i, text.slice(a, b)));
      at = b;
    }
    if (at < to) parent.append(text.slice(at, to));
  }

  takeBack() {
    const list = this.open?.node?.parentElement;
    this.open?.node?.remove();
    if (this.open?.kind === "item" && !list.childElementCount) list.remove();
  }

  /* Shows the text up to `end`. Returns the blocks that became final. */
  grow(end) {
    const lines = linesOf(this.places.textOf(this.part).slice(0, end), this.done), final = [];
    for (let i = 0; i < lines.length; ) {
      const block = blockAt(lines, i), at = lines[i].at;
      if (this.open?.language !== undefined && this.open.language === block.language && this.open.at === at) this.open.node.extend(block.body);
      else {
        this.takeBack();
        this.open = { at, kind: block.kind, language: block.language, node: placeBlock(this.root, block, this.put, 0) };
      }
      if (block.to < lines.length) {
        this.done = lines[block.to].at;
        if (this.open.node) final.push(this.open.node);
        this.open = null;
      }
      i = block.to;
    }
    return final;
  }
}
