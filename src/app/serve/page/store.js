/* What the browser keeps: conversations and settings in localStorage, the key in sessionStorage. */

const CONVERSATION = "tern.conversation.";

/* A browser may refuse to store; then the page works without. */
function stored(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

function storedConversations() {
  let names = [];
  try {
    names = Object.keys(localStorage).filter((name) => name.startsWith(CONVERSATION));
  } catch {} /* storage is off */
  return names.map((name) => storedConversation(name.slice(CONVERSATION.length))).filter(Boolean).sort((a, b) => b.changed - a.changed);
}

/* null: there is none, or this page did not write it */
function storedConversation(id) {
  try {
    return unpacked(stored(CONVERSATION + id));
  } catch {
    return null;
  }
}

/* Where there is too little room, the oldest conversations lose the probabilities of their tokens. */
function storeConversation(c, all) {
  if (store(CONVERSATION + c.id, packed(c))) return true;
  for (const old of [...all].sort((a, b) => a.changed - b.changed)) {
    if (!old.messages.some((m) => m.tokens)) continue;
    const bare = { ...old, messages: old.messages.map((m) => ({ ...m, tokens: undefined })) };
    if (store(CONVERSATION + old.id, bare) && (old === c || store(CONVERSATION + c.id, packed(c)))) return true;
  }
  return false;
}

function forgetConversation(c) {
  try {
    localStorage.removeItem(CONVERSATION + c.id);
  } catch {}
}

let key = "";
try {
  key = sessionStorage.getItem("tern.key") || "";
} catch {} /* storage is off */

function setKey(value) {
  key = value;
  try {
    sessionStorage.setItem("tern.key", value);
  } catch {}
}

function saveFile(name, value) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(value)], { type: "application/json" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/* The conversations of a file that saveFile wrote, with new ids where this browser has theirs */
function readConversations(text, all) {
  const data = JSON.parse(text), list = Array.isArray(data?.conversations) ? data.conversations : [data];
  return list.map(unpacked).map((c) => (all.some((x) => x.id === c.id) ? { ...c, id: newConversation().id } : c));
}
