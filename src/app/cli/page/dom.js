/* What the pages of all programs share: making elements, and the switch of the theme. */

/* element("p", {class: "soft"}, "text", child...) ; text never becomes markup */
function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) e.setAttribute(key, value === true ? "" : value);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

function isDark() {
  const root = document.documentElement.classList;
  return root.contains("dark") || (!root.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
}

const onTheme = []; /* functions that draw again */

function switchTheme() {
  const dark = !isDark();
  document.documentElement.classList.toggle("dark", dark);
  document.documentElement.classList.toggle("light", !dark);
  onTheme.forEach((f) => f());
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => onTheme.forEach((f) => f()));
