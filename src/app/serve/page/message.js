/* One message on the page. */

const views = new Map(); /* id of a message that is shown: its view */

function viewOf(node) {
  return views.get(Number(node.closest(".message").dataset.id));
}

function button(words, press, more) {
  return element("button", { type: "button", onclick: press, ...more }, words);
}

class MessageView {
  constructor(message) {
    this.message = message;
    this.body = element("div", { class: "body" });
    this.place = element("span", { class: "branches" });
    this.foot = element("footer", {});
    const who = message.role === "user" ? "You" : "Answer";
    this.element = element("article", { class: `message ${message.role}`, "data-id": message.id, "aria-label": who },
      element("header", {}, element("h2", {}, who), this.place), this.body, this.foot);
    this.draw();
  }

  isRunning() {
    return run?.message === this.message;
  }

  /* Makes everything anew. */
  draw() {
    const { message } = this;
    this.places = new Places(message);
    this.flows = null;
    this.body.replaceChildren();
    if (message.role === "user") this.body.append(element("div", { class: "plain", dir: "auto" }, message.text));
    else if (this.listed) this.drawTokens();
    else this.grow();
    this.refresh();
  }

  /* Every token in order, also those that Markdown hides */
  drawTokens() {
    const list = element("div", { class: "plain listed", dir: "auto" });
    this.message.tokens.forEach((token, i) => {
      const text = this.places.piece(i), span = tokenSpan(token, i, /[^\n]/.test(text) ? text : label(token.bytes) + text);
      if (!text) span.classList.add("sign");
      list.append(span);
    });
    this.body.replaceChildren(list);
    this.nameBody();
  }

  nameBody() {
    if (!this.message.tokens?.length || this.body.tabIndex === 0) return;
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "group");
    this.body.setAttribute("aria-label", "Answer. Arrow keys go through its tokens, Enter opens one.");
  }

  begin() {
    this.thought = element("details", { class: "thought", hidden: true }, element("summary", {}, "Thoughts"));
    const text = element("div", { class: "text" });
    this.body.append(this.thought, text);
    const inside = this.thought.appendChild(element("div", {}));
    this.flows = { thought: new Flow(inside, "thought", this.places), text: new Flow(text, "text", this.places) };
  }

  /* Shows what the message has. */
  grow() {
    if (this.listed) return;
    if (!this.flows) this.begin();
    const ended = !this.isRunning(), final = {};
    this.places.advance(ended);
    for (const part of ["thought", "text"]) final[part] = this.flows[part].grow(this.places.shown(part, ended));
    this.thought.hidden = !this.message.thought;
    this.nameBody();
    if (!ended) final.text.forEach((node) => say(node.textContent));
  }

  restart() {
    this.listed = false;
    this.draw();
  }

  finish() {
    this.refresh();
    const last = this.flows.text.open?.node;
    say(`${last?.textContent ?? ""} ${this.message.error ? "" : "The answer is complete."}`);
  }

  /* Draws what does not depend on the text: places among the branches, buttons, numbers, what went wrong. */
  refresh() {
    const { message } = this, running = this.isRunning();
    this.element.classList.toggle("running", running);
    this.element.ariaBusy = running;
    this.place.replaceChildren(...this.branchButtons());
    const error = message.error && element("p", { class: "error", role: "alert" }, message.error, " ", running ? null : button("Try again", () => goOn(message)));
    const full = !running && isFull(message.total) && element("p", { class: "full" }, `The conversation has filled the model's context of ${contextSize()} tokens: the answer ends here.`, ...wayOut());
    this.foot.replaceChildren(...[error, full, element("div", { class: "row" }, ...(running ? [] : this.actions()), element("span", { class: "soft stats" }, message.stats || ""))].filter(Boolean));
  }

  branchButtons() {
    const all = branches(current, this.message.parent), at = all.indexOf(this.message);
    if (all.length < 2) return [];
    const step = (by, sign, words) => button(sign, () => turn(this.message, by), { "aria-label": words, "data-step": by, disabled: !all[at + by] });
    return [step(-1, "‹", "Previous branch"), element("span", {}, `${at + 1}/${all.length}`), step(1, "›", "Next branch")];
  }

  actions() {
    const { message } = this, copy = button("Copy", () => copyText(message.text, copy));
    const common = [copy, button("Edit", () => this.edit())], away = button("Delete", () => removeMessage(message), { "aria-label": "Delete this message" });
    if (message.role === "user") return [...common, away];
    const list = () => {
      this.listed = !this.listed;
      this.draw();
      this.foot.querySelector("[aria-pressed]").focus();
    };
    return [...common, button("Regenerate", () => generate(message.parent)),
      message.text && !message.ended && !message.error && !isFull(message.total) ? button("Go on", () => goOn(message)) : "",
      message.tokens?.length ? button("Tokens", list, { "aria-pressed": String(!!this.listed) }) : "", away].filter(Boolean);
  }

  edit(text = this.message.text) {
    const { message } = this, user = message.role === "user";
    const area = element("textarea", { dir: "auto", rows: Math.min(16, text.split("\n").length + 2), "aria-label": "Text of the message" });
    area.value = text;
    const cancel = () => {
      this.draw();
      this.foot.querySelectorAll("button")[1].focus();
    };
    const save = () => (user ? sendText(area.value, message.parent) : replaceAnswer(message, area.value));
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
      else if (event.key === "Escape") cancel();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.body.replaceChildren(area, element("div", { class: "row" }, button(user ? "Send" : "Save", save), button("Cancel", cancel)));
    area.focus();
  }
}
