// Elements without markup: texts of a cluster are other people's, and never become tags.

/**
 * An element. Attributes that are null or false are left out, true ones are empty; `on*` are listeners; `text` is its
 * text. Children that are null or false are left out.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|null|false)} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== false && child !== undefined) element.append(child);
  return element;
}

/** Replaces what is in an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== false && child !== undefined));
}

/** Sets text or an attribute only where it differs: what is the same costs no layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

/** A state in words beside its colour: "good", "bad", "wait" or "none". */
export function pill(state, text) {
  return make("span", { class: `pill ${state}`, text });
}
