/* The server: requests, streams of events, and its refusals in plain words. */

class Refusal extends Error {
  constructor(words, status, wait, tooLong = false) {
    super(words);
    this.status = status;
    this.wait = wait; /* seconds until another try may succeed, or undefined */
    this.tooLong = tooLong; /* no other try succeeds with this text */
  }
}

async function refusalOf(response) {
  const { message: said, code } = await response.json().then((body) => body?.error ?? {}, () => ({}));
  const wait = Number(response.headers.get("retry-after")) || 5;
  switch (response.status) {
    case 401:
    case 403:
      return new Refusal(said && response.status === 403 ? said : "The server asks for a key. Enter it in the settings.", response.status);
    case 413:
      return new Refusal("This is more text than the server takes.", 413, undefined, true);
    case 429:
    case 503:
      return new Refusal(`The server is busy. Try again in ${wait} seconds.`, response.status, wait);
    default:
      if (code === "context_length_exceeded") return new Refusal(`The conversation is longer than the model's context of ${contextSize()} tokens.`, response.status, undefined, true);
      return new Refusal((response.status >= 500 ? "The server failed: " : "The server refused: ") + (said || `status ${response.status}`), response.status);
  }
}

async function ask(path, options = {}) {
  const headers = { ...(options.body && { "content-type": "application/json" }), ...(key && { authorization: `Bearer ${key}` }) };
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server does not answer. Is it running?", 0, 5);
  }
  if (!response.ok) throw await refusalOf(response);
  return response;
}

function broken(error) {
  if (error?.name === "AbortError") throw error;
  throw new Refusal("The connection broke before the answer was complete.", 0, 0);
}

/* The data of each event of a stream */
async function* eventsOf(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(broken);
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

/* Sends a request for an answer and gives each piece of it to take(). */
async function streamAnswer(body, signal, take) {
  const response = await ask("v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal });
  for await (const text of eventsOf(response)) {
    if (text === "[DONE]") return;
    signal.throwIfAborted(); /* more may have come at once */
    const piece = JSON.parse(text);
    if (piece.error) throw new Refusal("The server failed: " + piece.error.message, 500);
    take(piece);
  }
  broken();
}

/* bytes of a token as TextDecoder takes them */
function rawBytes(bytes) {
  return typeof bytes === "string" ? new TextEncoder().encode(bytes) : new Uint8Array(bytes.name ? [] : bytes);
}

/* {token, bytes, id, logprob} of the API as a token of a message, without its alternatives */
function choiceOf(entry) {
  const list = entry.bytes ?? [...new TextEncoder().encode(entry.token)];
  let bytes = list;
  try {
    bytes = list.length ? new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(new Uint8Array(list)) : { name: entry.token };
  } catch {} /* a part of a character */
  return { id: entry.id, bytes, logprob: entry.logprob };
}

function tokenOf(entry) {
  return { ...choiceOf(entry), top: (entry.top_logprobs || []).map(choiceOf) };
}
