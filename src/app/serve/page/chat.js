/* The page: its conversations, the one that is shown, and the answer that is being written. */

const at = (id) => document.getElementById(id);
const log = at("log"), prompt = at("prompt");
const conversations = storedConversations();
let current = conversations[0] ?? newConversation();
let lost = false; /* the server did not answer the last time */
let run = null; /* {conversation, message, abort, ...} of the answer that is being written */

/* ---- what is said ---- */

function notice(...words) {
  at("notice").hidden = !words[0];
  at("notice").replaceChildren(...words);
}

/* What can be done when the context is full */
function wayOut() {
  return [" Edit an earlier message to make it shorter, or begin a new conversation. ", button("New conversation", () => open(newConversation()))];
}

/* For screen readers */
function say(words) {
  at("live").append(element("p", {}, words));
  while (at("live").childElementCount > 20) at("live").firstChild.remove();
}

async function copyText(text, source) {
  const done = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  source.textContent = done || copyOldWay(text, source) ? "Copied" : "Not copied";
  setTimeout(() => (source.textContent = "Copy"), 1500);
}

/* Browsers have no clipboard for pages that come over plain HTTP from another machine. */
function copyOldWay(text, source) {
  const area = element("textarea", { class: "hidden", readonly: true });
  area.value = text;
  source.after(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  source.focus();
  return done;
}

/* ---- what is shown ---- */

/* Adds what another tab has written. The view of an answer that gets another id is made anew. */
function merge(c, other, own) {
  const id = own?.id, lacks = mergeConversation(c, other, own);
  if (own?.id !== id) {
    views.get(id)?.element.remove();
    views.delete(id);
  }
  return lacks;
}

function keep(c, own = run?.message) {
  c.changed = Date.now();
  if (!c.messages.length) return;
  const other = storedConversation(c.id); /* another tab may have written it */
  if (other) merge(c, other, own);
  if (!conversations.includes(c)) conversations.unshift(c);
  if (!storeConversation(c, conversations)) notice("The browser has no room left: this conversation is not kept. Delete old ones.");
}

function forget(c) {
  forgetConversation(c);
  conversations.splice(0, Infinity, ...conversations.filter((x) => x !== c));
}

/* Shows the branch that is chosen; messages that stay keep their elements. */
function show() {
  const path = shownPath(current), kept = [...views.values()];
  let same = 0;
  while (same < path.length && kept[same]?.message === path[same]) same++;
  for (const view of kept.slice(same)) {
    view.element.remove();
    views.delete(view.message.id);
  }
  for (const message of path.slice(same)) {
    const view = new MessageView(message);
    views.set(message.id, view);
    log.append(view.element);
  }
  for (const view of views.values()) view.refresh();
  at("empty").hidden = path.length > 0;
  showList();
}

function showList() {
  const item = (c) => element("li", { class: c === current ? "current" : null },
    button(titleOf(c), () => open(c), { class: "title", dir: "auto", "aria-current": c === current ? "true" : null }),
    button("Rename", () => rename(c), { "aria-label": `Rename: ${titleOf(c)}` }),
    button("Delete", () => remove(c), { "aria-label": `Delete: ${titleOf(c)}` }));
  at("list").replaceChildren(...conversations.map(item));
  document.title = `${titleOf(current)} (tern)`;
}

function open(c) {
  hideCard();
  notice("");
  current = c;
  for (const view of views.values()) view.element.remove();
  views.clear();
  show();
  log.scrollTop = log.scrollHeight;
  showSide(false);
  prompt.focus();
}

function rename(c) {
  const title = window.prompt("Name of the conversation", titleOf(c));
  if (title === null) return;
  c.title = title.trim();
  keep(c);
  showList();
}

async function remove(c) {
  if (!confirm(`Delete "${titleOf(c)}"? This cannot be undone.`)) return;
  if (run?.conversation === c) await stop();
  forget(c);
  if (c === current) open(conversations[0] ?? newConversation());
  else showList();
}

/* Deletes a message with all that follows it, also on branches that are not shown. */
async function removeMessage(message) {
  const c = current, ids = idsFrom(c, message), n = ids.size;
  if (!confirm(`Delete this message${n > 1 ? ` and the ${n - 1} that follow it` : ""}? This cannot be undone.`)) return;
  if (run?.conversation === c && ids.has(run.message.id)) await stop();
  hideCard();
  const before = dropMessage(c, messageOf(c, message.id) ?? message);
  keepOrForget(c);
  show();
  (views.get(before?.id ?? message.parent)?.foot.querySelector("button") ?? prompt).focus();
  say("Deleted.");
}

/* A conversation without messages is none. */
function keepOrForget(c) {
  if (c.messages.length) keep(c);
  else forget(c);
}

async function importFile(file) {
  try {
    const made = readConversations(await file.text(), conversations);
    conversations.unshift(...made);
    made.forEach(keep);
    open(made[0] ?? current);
    notice(`Imported ${made.length} conversation${made.length === 1 ? "" : "s"}.`);
  } catch (error) {
    notice(`This file cannot be imported: ${error.message}`);
  }
}

/* Another tab has written or deleted a conversation. */
function takeFromTab({ key: name }) {
  if (!name?.startsWith(CONVERSATION)) return;
  const id = name.slice(CONVERSATION.length), other = storedConversation(id);
  const c = [current, run?.conversation, ...conversations].find((x) => x?.id === id) ?? other;
  if (!c) return;
  if (!other) return deletedInTab(c);
  const lacks = c !== other && merge(c, other, run?.message);
  conversations.splice(0, Infinity, c, ...conversations.filter((x) => x !== c));
  if (lacks) keep(c);
  show();
}

/* This tab lets it go, too, unless someone is at work on it here. */
function deletedInTab(c) {
  const words = `"${titleOf(c)}" was deleted in another tab.`;
  if (c === run?.conversation || (c === current && (settings.open || log.querySelector("textarea")))) {
    c.id = newConversation().id;
    keep(c);
    showList();
    return notice(words, " It was in use here, so this tab keeps a copy.");
  }
  forget(c);
  if (c !== current) return showList();
  open(conversations[0] ?? newConversation());
  notice(words);
}

function showSide(shown) {
  document.body.classList.toggle("side", shown);
  at("menu").setAttribute("aria-expanded", String(shown));
  if (shown) at("new").focus();
}

/* ---- answers ---- */

function requestFor(c, message) {
  const turn = (m) => ({ role: m.role, content: m.text, ...(m.thought && { reasoning_content: m.thought }) });
  const messages = pathTo(c, message.parent).filter((m) => m.text || m.thought).map(turn);
  if (c.system.trim()) messages.unshift({ role: "system", content: c.system });
  const ids = message.tokens?.map((token) => token.id);
  const begun = ids?.length ? message.begun : message.text;
  if (begun) messages.push(turn({ ...message, text: begun }));
  return { model: server.model_alias || "tern", messages, stream: true, stream_options: { include_usage: true }, logprobs: true, return_tokens: true,
    top_logprobs: 6, ...parameters(), ...(ids?.length && { answer_tokens: ids }) };
}

/* A new answer to a message, as a branch of its own; `begun`: what it has already */
function generate(parent, begun) {
  return goOn(addMessage(current, parent, "assistant", begun));
}

/* Has the server write an answer, or the rest of one. */
async function goOn(message) {
  await stop();
  message = messageOf(current, message.id) ?? message; /* another tab may have gone on with it */
  if (lost) readServer(); /* it may be another one now */
  lost = false;
  notice("");
  const mine = (run = { conversation: current, message, abort: new AbortController(), begun: performance.now(), tokens: 0, next: 0 });
  Object.assign(message, { error: undefined, ended: undefined, stats: undefined, total: undefined });
  if (!message.tokens?.length && message.text) message.begun = message.text;
  at("send").textContent = "Stop";
  show();
  views.get(message.id).restart();
  log.scrollTop = log.scrollHeight;
  if (document.activeElement === document.body) at("send").focus();
  mine.over = write(mine);
  await mine.over;
  if (!mine.tooLong || mine.conversation !== current) return;
  takeBack(mine);
  notice(message.error, ...wayOut());
}

/* The server has no room for a message: it goes back to where it was written. What the model has begun stays. */
function takeBack({ conversation: c, message }) {
  if (message.text || message.thought) return;
  dropMessage(c, message);
  const asked = messageOf(c, message.parent), back = asked?.role === "user" && !branches(c, asked.id).length;
  const before = back && dropMessage(c, asked);
  keepOrForget(c);
  show();
  if (before) return views.get(before.id).edit(asked.text);
  if (!back) return;
  prompt.value = [asked.text, prompt.value].filter(Boolean).join("\n");
  fitPrompt();
  prompt.focus();
}

async function write(mine) {
  const { message } = mine;
  try {
    await streamAnswer(requestFor(mine.conversation, message), mine.abort.signal, (piece) => take(mine, piece));
    message.ended = mine.reason === "stop";
  } catch (error) {
    if (error.name === "AbortError") mine.reason = "stopped";
    else if (error instanceof Refusal) [message.error, lost] = [error.message, error.status === 0];
    else throw error;
    mine.tooLong = error.tooLong;
    if (error.status === 401) openSettings("key");
  } finally {
    finish(mine);
  }
}

/* One piece of a stream */
function take(mine, { choices, usage, timings, seed }) {
  const { message } = mine, choice = choices?.[0], delta = choice?.delta;
  if (usage) mine.usage = usage;
  if (timings) mine.timings = timings;
  if (seed !== undefined) mine.seed = seed;
  if (!choice) return;
  message.text += delta?.content ?? "";
  const thought = delta?.reasoning_content ?? delta?.reasoning;
  if (thought) message.thought = (message.thought || "") + thought;
  const tokens = choice.logprobs?.content?.filter((entry) => Number.isInteger(entry.id)).map(tokenOf) ?? [];
  if (tokens.length) (message.tokens ??= []).push(...tokens);
  mine.tokens += tokens.length || 1;
  mine.first ??= performance.now();
  mine.reason = choice.finish_reason ?? mine.reason;
  mine.frame ??= requestAnimationFrame(() => drawRun(mine));
}

/* Draws what has come. Long answers are drawn less often: drawing takes at most a fifth of the time. */
function drawRun(mine) {
  mine.frame = undefined;
  if (run !== mine) return;
  const begun = performance.now();
  if (begun < mine.next) mine.frame = requestAnimationFrame(() => drawRun(mine));
  else {
    growView(mine);
    mine.next = performance.now() + 4 * (performance.now() - begun);
  }
}

function growView(mine) {
  const view = mine.conversation === current && views.get(mine.message.id);
  if (!view) return;
  const follow = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  view.grow();
  view.foot.querySelector(".stats").textContent = statsOf(mine);
  if (follow) log.scrollTop = log.scrollHeight;
}

function isFull(total) {
  return total >= contextSize();
}

const REASONS = { length: "length limit reached", stopped: "stopped by you" };

/* "12 tokens in (8 from the cache); 200 out; 45.2 tokens/s; first after 0.31 s; seed 7" */
function statsOf(mine) {
  const { usage, timings } = mine, out = usage?.completion_tokens ?? mine.tokens, known = usage?.prompt_tokens_details?.cached_tokens;
  const speed =
      ((out - 1) * 1000) /
      (timings?.predicted_ms ?? performance.now() - mine.first); // the first came with the prompt
  const words = [];
  if (usage) words.push(`${usage.prompt_tokens} tokens in` + (known ? ` (${known} from the cache)` : ""));
  words.push(`${out} out`);
  if (mine.first && out > 7 && Number.isFinite(speed))
      words.push(`${speed.toFixed(speed < 10 ? 2 : speed < 100 ? 1 : 0)} tokens/s`);
  if (mine.first) words.push(`first after ${((mine.first - mine.begun) / 1000).toFixed(2)} s`);
  if (mine.reason === "length" && isFull(usage?.total_tokens)) words.push("context full");
  else if (REASONS[mine.reason]) words.push(REASONS[mine.reason]);
  if (mine.seed !== undefined) words.push(`seed ${mine.seed}`);
  return words.join("; ");
}

function finish(mine) {
  mine.message.stats = statsOf(mine);
  mine.message.changed = Date.now();
  mine.message.total = mine.usage?.total_tokens;
  if (run === mine) run = null;
  growView(mine);
  const view = views.get(mine.message.id);
  if (view?.message === mine.message) view.finish();
  keep(mine.conversation, mine.message);
  at("send").textContent = "Send";
  show();
}

async function stop() {
  if (!run) return false;
  run.abort.abort();
  await run.over;
  return true;
}

/* ---- what people do ---- */

function sendText(text, parent) {
  if (!text.trim()) return;
  const message = addMessage(current, parent, "user", { text });
  keep(current);
  generate(message.id);
}

function replaceAnswer(message, text) {
  addMessage(current, message.parent, "assistant", { text, thought: message.thought });
  keep(current);
  show();
}

/* The answer up to token i, then another token, then what the model makes of it */
function branchFrom(message, i, other) {
  const places = new Places(message), tokens = [...message.tokens.slice(0, i), { ...other, top: message.tokens[i].top }];
  places.advance(true);
  const { part, from } = places.of[i], begun = { text: "", tokens, begun: message.begun };
  const piece = new Places({ tokens }).piece(i);
  if (part === "text" && message.thought) begun.thought = message.thought;
  begun[part === "thought" && !message.thought ? "text" : part] = places.textOf(part).slice(0, from) + piece;
  generate(message.parent, begun);
}

function turn(message, by) {
  chooseBranch(current, message, by);
  keep(current);
  show();
  views.get(current.chosen[message.parent]).place.querySelector(`[data-step="${by}"]:enabled, button:enabled`)?.focus();
}

function submit() {
  if (run) return stop();
  const text = prompt.value, last = shownPath(current).findLast((m) => m.role === "assistant");
  if (!text.trim()) return null;
  prompt.value = "";
  fitPrompt();
  return sendText(text, last?.id ?? 0); /* behind an answer: what another tab asks waits for its own */
}

function fitPrompt() {
  prompt.style.height = "auto";
  prompt.style.height = `${Math.min(prompt.scrollHeight + 2, innerHeight / 3)}px`;
}

/* Enter sends, where fingers do not type; with Ctrl or Cmd everywhere. */
function promptKey(event) {
  const always = event.ctrlKey || event.metaKey, usual = !event.shiftKey && !matchMedia("(pointer: coarse)").matches;
  if (event.key !== "Enter" || event.isComposing || !(always || usual)) return;
  event.preventDefault();
  if (!run) submit();
}

function escapeKey(event) {
  if (event.key !== "Escape" || settings.open || lookDialog.open || hideCard()) return;
  if (document.body.classList.contains("side")) {
    showSide(false);
    at("menu").focus();
  } else stop();
}

function toggleSurprise() {
  const shown = document.body.classList.toggle("surprise");
  at("surprise").setAttribute("aria-pressed", String(shown));
  store("tern.surprise", shown);
}

function connect() {
  at("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  prompt.addEventListener("keydown", promptKey);
  prompt.addEventListener("input", fitPrompt);
  document.addEventListener("keydown", escapeKey);
  at("surprise").addEventListener("click", toggleSurprise);
  at("theme").addEventListener("click", () => {
    switchTheme();
    store("tern.dark", isDark());
  });
  at("open-settings").addEventListener("click", () => openSettings());
  settings.addEventListener("close", () => {
    keep(current);
    readServer();
  });
  at("menu").addEventListener("click", () => showSide(!document.body.classList.contains("side")));
  at("new").addEventListener("click", () => open(newConversation()));
  at("export").addEventListener("click", () => saveFile("tern-conversations.json", { conversations: conversations.map(packed) }));
  at("import").addEventListener("click", () => at("file").click());
  at("file").addEventListener("change", (event) => event.target.files.length && importFile(event.target.files[0]));
  addEventListener("storage", takeFromTab);
  addEventListener("pagehide", () => run && keep(run.conversation));
  watchTokens(log);
  connectLook();
}

if (stored("tern.dark") === !isDark()) switchTheme();
buildSettings();
connect();
if (stored("tern.surprise")) toggleSurprise();
open(current);
readServer();
