// What is looked at stands in the address behind '#', so that every state is a link:
//   #/nodes?q=gpu-1&stage=driver&open=node/gpu-17

/** @typedef {{view: string, words: Object<string, string>}} Place */

export const VIEWS = ["nodes", "wrong", "pods", "roll-outs"];

/** @returns {Place} */
export function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: VIEWS.includes(path) ? path : "nodes", words: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {Place} to */
export function link({ view, words }) {
  const query = new URLSearchParams(Object.entries(words).filter(([, value]) => value));
  return `#/${view}${query.size ? `?${query}` : ""}`;
}

/**
 * Goes there: `step` makes an entry of the history, so that "back" leads here again.
 * @param {Partial<Place>} change words that are "" go
 */
export function go(change, step = false) {
  const here = place();
  const to = link({ view: change.view ?? here.view, words: { ...here.words, ...change.words } });
  if (to === location.hash) return;
  if (step) history.pushState(null, "", to);
  else history.replaceState(null, "", to);
  dispatchEvent(new Event("place"));
}
