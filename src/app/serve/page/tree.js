/* A conversation is a tree of messages. A message knows its parent (0: none); `chosen` says which of the
 * messages with one parent is shown; `gone` has the ids of messages that were taken
 * out. Several tabs may write to one conversation: ids are made of the time and chance, and `changed` says when. Tokens of an answer: {id, bytes, logprob, top: [{id, bytes, logprob}]};
 * bytes is a string, an array of numbers where they are a part of a character, or {name} of a control token. `begun`:
 * what stands before them in the text, written by people. `total`: tokens of the prompt and the answer. */

function newConversation() {
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
  return { id, title: "", system: "", changed: Date.now(), chosen: {}, gone: [], messages: [] };
}

function messageOf(c, id) {
  return c.messages.find((m) => m.id === id);
}

function branches(c, parent) {
  return c.messages.filter((m) => m.parent === parent);
}

/* Larger than any there is */
function freshId(c) {
  const least = 1 + c.messages.reduce((most, m) => Math.max(most, m.id), 0);
  return Math.max(least, Date.now() * 1000 + Math.floor(Math.random() * 1000));
}

/* Adds a message to the branch that is shown, as the last of its siblings; `instead`: the one shown before. */
function addMessage(c, parent, role, fields) {
  const id = freshId(c), m = { id, parent, changed: Date.now(), role, text: "", instead: c.chosen[parent], ...fields };
  c.messages.push(m);
  c.chosen[parent] = id;
  return m;
}

/* The ids of a message and of all that follow it, on any branch */
function idsFrom(c, m) {
  const ids = new Set([m.id]);
  for (const x of [...c.messages].sort((a, b) => a.id - b.id)) if (ids.has(x.parent)) ids.add(x.id);
  return ids;
}

/* Takes a message and all that follows it out. The sibling that was shown before it is shown again. */
function dropMessage(c, m) {
  const out = idsFrom(c, m);
  c.messages = c.messages.filter((x) => !out.has(x.id));
  c.gone.push(...out);
  for (const id of out) delete c.chosen[id];
  const left = branches(c, m.parent), before = left.find((x) => x.id === m.instead) ?? left.at(-1);
  if (before) c.chosen[m.parent] = before.id;
  else delete c.chosen[m.parent];
  return before;
}

/* The wanted child of each parent, or its last one */
function choiceAmong(messages, wanted) {
  const chosen = {};
  for (const m of messages) if (chosen[m.parent] !== wanted[m.parent] || !chosen[m.parent]) chosen[m.parent] = m.id;
  return chosen;
}

/* The messages of `all`, sorted by id, that are not gone, and those that they or `own` follow */
function messagesLeft(all, gone, own) {
  const needed = new Set();
  return all.reverse().filter((m) => {
    const stays = !gone.has(m.id) || needed.has(m.id) || m === own;
    if (stays) needed.add(m.parent);
    return stays;
  }).reverse();
}

/* Another tab went on with the answer that is being written here: this one becomes an answer of its own. */
function renumber(c, own) {
  const { id, parent } = own;
  own.id = freshId(c);
  if (c.chosen[parent] === id) c.chosen[parent] = own.id;
}

/* Adds to c what another tab has written of it: of each message the newer version, but `own` stays. Returns whether
 * the other tab lacks something. */
function mergeConversation(c, other, own) {
  const theirs = new Map(other.messages.map((m) => [m.id, m])), whole = (m) => (m.thought || "") + m.text;
  if (own && theirs.has(own.id) && !whole(own).startsWith(whole(theirs.get(own.id)))) renumber(c, own);
  const ours = new Set(c.messages.map((m) => m.id)), newer = (m) => (m !== own && theirs.get(m.id)?.changed > m.changed ? theirs.get(m.id) : m);
  const all = [...c.messages.map(newer), ...other.messages.filter((m) => !ours.has(m.id))].sort((a, b) => a.id - b.id);
  const gone = new Set([...c.gone, ...other.gone]);
  if (other.changed > c.changed) Object.assign(c, { title: other.title, system: other.system, changed: other.changed });
  c.gone = [...gone];
  c.messages = messagesLeft(all, gone, own);
  c.chosen = choiceAmong(c.messages, { ...other.chosen, ...c.chosen });
  return gone.size > other.gone.length || c.messages.some((m) => !(theirs.get(m.id)?.changed >= m.changed));
}

/* The messages that are shown, from the first on */
function shownPath(c) {
  const path = [];
  for (let m = messageOf(c, c.chosen[0]); m; m = messageOf(c, c.chosen[m.id])) path.push(m);
  return path;
}

/* The messages up to and with the one of this id */
function pathTo(c, id) {
  const path = [];
  for (let m = messageOf(c, id); m; m = messageOf(c, m.parent)) path.unshift(m);
  return path;
}

/* Shows the sibling that is `step` further. */
function chooseBranch(c, m, step) {
  const all = branches(c, m.parent), other = all[all.indexOf(m) + step];
  if (other) c.chosen[m.parent] = other.id;
}

function titleOf(c) {
  const first = c.title || c.messages[0]?.text.trim().split("\n")[0].slice(0, 60);
  return first || "New conversation";
}

/* ---- what is stored: tokens as flat lists [id, bytes, logprob, and so on for each alternative] ---- */

function packed(c) {
  const flat = (t) => [t, ...t.top].flatMap((x) => [x.id, x.bytes, Math.round(x.logprob * 1e4) / 1e4]);
  return { ...c, messages: c.messages.map((m) => ({ ...m, tokens: m.tokens?.map(flat) })) };
}

function isBytes(x) {
  return typeof (x?.name ?? x) === "string" || (Array.isArray(x) && x.every((b) => Number.isInteger(b) && b >= 0 && b < 256));
}

function unpackedToken(list) {
  const all = [];
  for (let i = 0; i + 2 < list.length; i += 3) {
    const [id, bytes, logprob] = list.slice(i, i + 3);
    if (!Number.isInteger(id) || !isBytes(bytes)) throw new Error("a token is damaged");
    all.push({ id, bytes, logprob: typeof logprob === "number" ? logprob : -Infinity });
  }
  if (!all.length) throw new Error("a token is empty");
  return { ...all[0], top: all.slice(1) };
}

function unpackedMessage(m) {
  const known = ["user", "assistant"].includes(m.role) && Number.isInteger(m.id) && m.id > 0 && Number.isInteger(m.parent);
  if (!known || m.parent < 0 || m.parent >= m.id || typeof m.text !== "string") throw new Error("a message is damaged");
  const kept = { id: m.id, parent: m.parent, role: m.role, text: m.text, changed: Number(m.changed) || 0 };
  for (const name of ["thought", "begun", "stats", "error"]) if (typeof m[name] === "string") kept[name] = m[name];
  if (Array.isArray(m.tokens)) kept.tokens = m.tokens.map(unpackedToken);
  if (Number.isInteger(m.total)) kept.total = m.total;
  return m.ended === true ? { ...kept, ended: true } : kept;
}

/* A conversation from JSON of a store or of a file. Throws an Error that says what is wrong. Parents have lower ids
 * than their children, so no walk through the tree is endless. */
function unpacked(c) {
  if (!c || typeof c.id !== "string" || !Array.isArray(c.messages)) throw new Error("it is no conversation");
  const fresh = newConversation(), messages = c.messages.map(unpackedMessage);
  if (new Set(messages.map((m) => m.id)).size < messages.length) throw new Error("two messages have one id");
  const text = (x) => (typeof x === "string" ? x : "");
  return { id: c.id, title: text(c.title), system: text(c.system), changed: Number(c.changed) || fresh.changed,
    chosen: choiceAmong(messages, c.chosen ?? {}), gone: Array.isArray(c.gone) ? c.gone.filter(Number.isInteger) : [], messages };
}
