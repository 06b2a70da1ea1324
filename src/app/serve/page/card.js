/* The card of a token: how likely it was, and the tokens that could have been. It shows while the mouse is on a token or
 * a key has moved there, and stays after a click. */

const card = document.getElementById("card");
let cardSpan = null, cardStays = false, cardTimer = 0;

/* A token as people can read it: blanks and parts of characters have signs. */
function label(bytes) {
  if (bytes.name) return bytes.name;
  if (typeof bytes !== "string") return bytes.map((b) => "\\x" + b.toString(16).padStart(2, "0")).join("");
  return bytes.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => (c === "\n" ? "⏎" : c === "\t" ? "⇥" : `\\u{${c.codePointAt(0).toString(16)}}`)).replace(/^ | $/g, "␣");
}

function percent(logprob) {
  const p = 100 * Math.exp(logprob);
  return p < 0.01 ? "< 0.01 %" : p.toFixed(p < 1 ? 2 : 1) + " %";
}

/* Whether the context was full when the i-th token of an answer was chosen */
function isUnread({ total, tokens }, i) {
  return total - tokens.length + i >= contextSize();
}

function unreadWords() {
  return `The context of ${contextSize()} tokens was full when this token was chosen. The model has not read it, so it has no attention`;
}

function showCard(span, stays) {
  clearTimeout(cardTimer);
  const view = viewOf(span), i = Number(span.dataset.i), token = view.message.tokens[i];
  cardSpan?.classList.remove("at");
  [cardSpan, cardStays] = [span, stays];
  span.classList.add("at");
  const bits = Math.max(0, -token.logprob / Math.LN2).toFixed(1);
  const head = element("p", {}, element("bdi", { class: "label" }, label(token.bytes)), ` ${percent(token.logprob)}, surprise ${bits} bits`);
  const unread = isUnread(view.message, i), others = token.top.map((other) => element("li", {}, alternative(view, i, other, unread)));
  const hint = unread ? `${unreadWords()}, and the answer cannot go on from here.` : others.length ? "Choose a token, and the answer goes on from there as a new branch." : "The server gave no alternatives.";
  const looks = canLook() ? button("Attention", () => (hideCard(), openLook(view.message, i)), { disabled: unread }) : "";
  card.replaceChildren(head, element("ul", {}, ...others), element("p", { class: "soft" }, hint), looks);
  card.hidden = false;
  placeCard(span);
}

function alternative(view, i, other, disabled) {
  const token = view.message.tokens[i];
  const bar = element("span", { class: "share" });
  bar.style.width = `${100 * Math.exp(other.logprob)}%`;
  const press = () => {
    hideCard();
    branchFrom(view.message, i, other);
  };
  const parts = [element("bdi", { class: "label" }, label(other.bytes)), element("span", {}, percent(other.logprob)), bar];
  return element("button", { type: "button", "aria-current": other.id === token.id ? "true" : null, disabled, onclick: press }, ...parts);
}

/* Below the token, or above where there is no room */
function placeCard(span) {
  const at = span.getClientRects()[0] ?? span.getBoundingClientRect(), box = card.getBoundingClientRect();
  const below = at.bottom + 4, fits = below + box.height < innerHeight;
  card.style.top = `${Math.max(4, fits ? below : at.top - box.height - 4)}px`;
  card.style.left = `${Math.max(4, Math.min(at.left, innerWidth - box.width - 4))}px`;
}

function hideCard() {
  clearTimeout(cardTimer);
  if (card.hidden) return false;
  if (card.contains(document.activeElement)) {
    cardSpan.tabIndex = -1;
    cardSpan.focus();
  }
  cardSpan.classList.remove("at");
  cardSpan = null;
  card.hidden = true;
  return true;
}

function hover(event) {
  const span = event.target.closest?.(".t");
  if (cardStays && !card.hidden) return;
  clearTimeout(cardTimer);
  if (span && event.pointerType === "mouse" && !event.buttons) cardTimer = setTimeout(() => span.isConnected && showCard(span, false), 120);
  else if (!card.contains(event.target)) cardTimer = setTimeout(hideCard, 300);
}

/* Moves to another token of the message by keys. */
function walk(view, span, step) {
  const spans = [...view.element.querySelectorAll(".t")].filter((s) => s.checkVisibility());
  const next = spans[Math.min(Math.max(spans.indexOf(span) + step, 0), spans.length - 1)];
  if (!next) return;
  next.tabIndex = -1;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  showCard(next, false);
}

function walkByKey(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }, body = event.target.closest(".body");
  if (!body || (event.target !== body && !event.target.classList.contains("t"))) return;
  const span = event.target.classList.contains("t") ? event.target : null;
  if (event.key in steps) walk(viewOf(body), span, span ? steps[event.key] : 1);
  else if (event.key === "Enter" && span) {
    showCard(span, true);
    card.querySelector("button")?.focus();
  } else return;
  event.preventDefault();
}

function watchTokens(log) {
  document.addEventListener("pointerover", hover);
  log.addEventListener("keydown", walkByKey);
  log.addEventListener("scroll", () => !cardStays && document.activeElement !== cardSpan && hideCard());
  document.addEventListener("click", (event) => {
    const span = event.target.closest(".t");
    if (span && !event.target.closest("a") && getSelection().isCollapsed) showCard(span, true);
    else if (!card.contains(event.target)) hideCard();
  });
}
