/* What a request says beside the messages: the form of the settings. */

const NUMBERS = [
  ["temperature", "Temperature", 0, 5, "0: always the likeliest token"],
  ["top_p", "Top p", 0, 1, "1: off"],
  ["top_k", "Top k", 0, 1000000, "0: off"],
  ["min_p", "Min p", 0, 1, "0: off"],
  ["repeat_penalty", "Repeat penalty", 0.01, 10, "1: off"],
  ["presence_penalty", "Presence penalty", -2, 2, "0: off"],
  ["frequency_penalty", "Frequency penalty", -2, 2, "0: off"],
  ["seed", "Seed", 0, Number.MAX_SAFE_INTEGER, "empty: a new one each time"],
  ["max_tokens", "Longest answer, in tokens", 1, 10000000, "empty: no limit"],
];
const WHOLE = ["top_k", "seed", "max_tokens"];
const settings = document.getElementById("settings"), form = settings.querySelector("form");
let server = {}; /* what GET /props says */

function field(name, words, hint, control) {
  control.id = "set-" + name;
  control.name = name;
  const about = element("small", { class: "soft", id: `about-${name}` }, hint);
  control.setAttribute("aria-describedby", about.id);
  return element("p", { "data-field": name, class: control.localName === "textarea" ? "all" : null }, element("label", { for: control.id }, words), control, about);
}

function buildSettings() {
  const numbers = NUMBERS.map(([name, words, min, max, hint]) => field(name, words, hint, element("input", { type: "number", min, max, step: WHOLE.includes(name) ? 1 : "any", inputmode: "decimal" })));
  const choices = [["", "as the model does"], ["on", "on"], ["off", "off"]].map(([value, words]) => element("option", { value }, words));
  form.querySelector("#fields").append(
    field("system", "System text of this conversation", "What the model is told first", element("textarea", { rows: 3, dir: "auto" })),
    field("thinking", "Thinking", "", element("select", {}, ...choices)),
    ...numbers,
    field("stop", "Stop texts", "One a line, at most 4; \\n is a line break", element("textarea", { rows: 2 })),
    field("schema", "JSON schema of the answer", "Empty: free text", element("textarea", { rows: 3, spellcheck: "false" })),
    field("key", "Key of the server", "Kept until this tab is closed", element("input", { type: "password", autocomplete: "off" })),
  );
  for (const [name, value] of Object.entries(stored("tern.settings", {}))) if (form.elements[name] && name !== "key") form.elements[name].value = value;
  form.elements.key.value = key;
  form.addEventListener("input", keepSettings);
}

function keepSettings() {
  const { key: secret, system, ...others } = Object.fromEntries(new FormData(form));
  store("tern.settings", others);
  setKey(secret);
  current.system = system;
  form.elements.schema.setCustomValidity(schemaFault());
}

function schemaFault() {
  try {
    const schema = JSON.parse(form.elements.schema.value || "{}");
    return schema && typeof schema === "object" && !Array.isArray(schema)
               ? ""
               : "A schema begins with { and ends with }.";
  } catch (error) {
    return "The schema is not valid JSON: " + error.message;
  }
}

function openSettings(name) {
  form.elements.system.value = current.system;
  settings.showModal();
  if (name) form.elements[name].focus();
}

/* The fields of a request that the form has values for. A value that the form calls invalid is an Error. */
function parameters() {
  const bad = [...form.elements].find((control) => !control.validity.valid);
  if (bad) throw new Refusal(`Settings, ${bad.labels[0].textContent}: ${bad.validationMessage}`, 0);
  const made = {};
  for (const [name] of NUMBERS) if (form.elements[name].value !== "") made[name] = Number(form.elements[name].value);
  const stop = form.elements.stop.value.split("\n").filter((line) => line).map((line) => line.replaceAll("\\n", "\n"));
  if (stop.length) made.stop = stop.slice(0, 4);
  if (form.elements.schema.value.trim()) made.response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema: JSON.parse(form.elements.schema.value) } };
  if (form.elements.thinking.value && server.thinking) made.chat_template_kwargs = { enable_thinking: form.elements.thinking.value === "on" };
  return made;
}

/* The tokens that the model's context holds; undefined: not known */
function contextSize() {
  return server.n_ctx ?? server.default_generation_settings?.n_ctx;
}

/* Asks what the server has; without an answer the page goes on. */
async function readServer() {
  try {
    server = await (await ask("props")).json();
    notice("");
  } catch (refusal) {
    notice(refusal.message);
    if (refusal.status === 401) openSettings("key");
  }
  const context = contextSize();
  document.getElementById("model").textContent = (server.model_alias || "tern") + (context ? `, ${context} tokens` : "");
  form.querySelector("[data-field=thinking]").hidden = !server.thinking;
  for (const [name] of NUMBERS) form.elements[name].placeholder = server.default_generation_settings?.params?.[name] ?? "";
  for (const view of views.values()) view.refresh();
}
