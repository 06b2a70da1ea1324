/* What a token attends to: a dialog with all tokens of the text. Those that the token sees are shaded by their weights. */

const lookDialog = document.getElementById("look"), lookForm = lookDialog.querySelector("form"), weighed = document.getElementById("weighed");
const lookLayer = lookForm.elements.layer, lookHead = lookForm.elements.head;
let look = null; /* {ids, pieces: [] of all tokens, at: the one that looks, weights: of those up to it, marked, asked} */

function canLook() {
  return server.attention_heads?.some((n) => n > 0);
}

async function answerTo(path, body) {
  return (await ask(path, { method: "POST", body: JSON.stringify(body) })).json();
}

function sayLook(...words) {
  at("weight").replaceChildren(...words);
}

/* Runs what may be refused. Returns whether it was done. */
async function trying(work) {
  try {
    await work();
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    sayLook(element("span", { class: "error" }, error.message));
    return false;
  }
}

/* Opens the dialog for the i-th token of an answer. */
function openLook(message, i) {
  const mine = (look = { weights: [] });
  weighed.replaceChildren();
  at("most").replaceChildren();
  sayLook("Reading ...");
  chooseLayers();
  lookDialog.showModal();
  return trying(async () => {
    const { messages, chat_template_kwargs } = requestFor(current, message);
    const { tokens } = await answerTo("apply-template", { messages, chat_template_kwargs });
    mine.ids = [...tokens, ...message.tokens.map((t) => t.id)];
    mine.pieces = [...tokens.map(() => ""), ...message.tokens.map((t) => t.bytes)];
    if (look === mine) await weigh(tokens.length + i);
  });
}

function chooseLayers() {
  const heads = server.attention_heads, kept = stored("tern.look", {});
  const usable = heads.flatMap((n, l) => (n ? [l] : []));
  lookLayer.replaceChildren(...heads.map((n, l) => element("option", { value: l, disabled: !n }, n ? `${l}` : `${l}: no attention`)));
  lookLayer.value = heads[kept.layer] ? kept.layer : usable[usable.length >> 1];
  chooseHeads(kept.head);
}

function chooseHeads(wanted) {
  const n = server.attention_heads[lookLayer.value];
  const numbers = Array.from({ length: n }, (_, h) => element("option", { value: h }, `${h}`));
  lookHead.replaceChildren(element("option", { value: "mean" }, "mean"), element("option", { value: "max" }, "largest"), ...numbers);
  lookHead.value = wanted;
  if (!lookHead.value) lookHead.value = "mean";
}

/* Asks for the weights of the token at a place, and shows them. The newest question counts. */
function weigh(place) {
  const mine = look, asked = (mine.asked = {}), layer = Number(lookLayer.value), choice = lookHead.value;
  store("tern.look", { layer, head: choice });
  return trying(async () => {
    if (place >= contextSize()) throw new Refusal(`${unreadWords()}.`);
    const answer = await answerTo("attention", { tokens: mine.ids.slice(0, place + 1), layer, with_pieces: true, ...(choice >= 0 && { head: Number(choice) }) });
    if (look !== mine || mine.asked !== asked) return;
    const bytes = Uint8Array.from(atob(answer.weights), (c) => c.charCodeAt(0)), n = answer.n_tokens;
    mine.weights = mixed(new Float32Array(bytes.buffer), n, choice === "max");
    answer.tokens.forEach((t, i) => (mine.pieces[i] = t.piece));
    mine.at = place;
    drawLook();
  });
}

/* The mean or the largest of all heads; rows [heads, n] */
function mixed(rows, n, largest) {
  const out = new Float32Array(n), heads = rows.length / n;
  rows.forEach((w, i) => (out[i % n] = largest ? Math.max(out[i % n], w) : out[i % n] + w / heads));
  return out;
}

/* Many heads rest on the first token. It has the last shade, and no part in those of the others. */
function drawLook() {
  const { pieces, weights } = look, top = weights.slice(1).reduce((a, b) => Math.max(a, b), 0) || 1;
  const shade = (i) => (i > look.at ? null : Math.min(9, Math.round(9 * Math.sqrt(weights[i] / top))));
  const text = (p) => (typeof p === "string" && /[^\n]/.test(p) ? p : label(p) + (typeof p === "string" ? p : ""));
  weighed.replaceChildren(...pieces.map((p, i) => element("span", { class: i > look.at ? "w soft" : "w", "data-s": shade(i), tabindex: -1, "aria-current": i === look.at ? "true" : null }, text(p))));
  const most = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 5);
  at("most").replaceChildren("Most: ", ...most.flatMap((i, k) => [k ? ", " : "", element("bdi", { class: "label" }, label(pieces[i])), ` ${percent(Math.log(weights[i]))}`]));
  mark(look.at);
  weighed.children[look.at].scrollIntoView({ block: "nearest" });
}

/* Says how much a token gets. */
function mark(i) {
  look.marked = i;
  const name = (k) => element("bdi", { class: "label" }, label(look.pieces[k]));
  const says = i > look.at ? ["comes later"] : [percent(Math.log(look.weights[i])), " of the attention of ", name(look.at)];
  sayLook(name(i), `, token ${i + 1}: `, ...says);
}

function weighedKey(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity }, last = weighed.childElementCount - 1;
  if (last < 0) return;
  if (event.key === "Enter") weigh(look.marked).then((done) => done && weighed.children[look.at].focus());
  else if (event.key in steps) weighed.children[Math.min(Math.max(look.marked + steps[event.key], 0), last)].focus();
  else return;
  event.preventDefault();
}

function connectLook() {
  const touch = (event) => event.target.classList.contains("w") && mark([...weighed.children].indexOf(event.target));
  for (const kind of ["pointermove", "focusin", "click"]) weighed.addEventListener(kind, touch);
  weighed.addEventListener("keydown", weighedKey);
  lookLayer.addEventListener("change", () => {
    chooseHeads(lookHead.value);
    weigh(look.at);
  });
  lookHead.addEventListener("change", () => weigh(look.at));
  lookForm.elements.from.addEventListener("click", () => weigh(look.marked));
  lookDialog.addEventListener("close", () => (look = null));
}
