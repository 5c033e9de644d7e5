// The session, and the stream of events of the server.

/** A token that the address brings along, taken out of it so that it does not stay in the history. */
function takeToken() {
  const match = /^#token=([0-9a-f]+)(.*)$/.exec(location.hash);
  if (!match) return "";
  history.replaceState(null, "", location.pathname + (match[2] ? `#${match[2]}` : ""));
  return match[1];
}

/**
 * Signs in with a token, or with the session that there is.
 * @returns {Promise<"ok"|"link"|"token"|string>} what the server asks for, or why it refuses
 */
export async function enter(token = takeToken()) {
  const answer = await fetch("/api/session", { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (answer.ok) return "ok";
  const said = await answer.json().catch(() => ({ error: `the server answers ${answer.status}` }));
  return said.asks ?? said.error;
}

/**
 * Follows the fleet. A browser reconnects by itself and says what it has seen last; where the server has refused,
 * it does not, and `lost` is told.
 * @param {import("./model.js").Model} model
 * @param {(what: "fleet"|"change"|"beat"|"source", message: any) => void} changed
 * @param {(state: "live"|"waiting"|"ended") => void} state
 */
export function follow(model, changed, state) {
  const events = new EventSource("/api/events");
  const on = (name, take) => events.addEventListener(name, (event) => {
    const message = JSON.parse(event.data);
    take(message);
    state("live");
    changed(name, message);
  });
  on("source", (source) => model.setSource(source));
  on("fleet", (message) => model.replace(message));
  on("change", (message) => model.change(message));
  on("beat", (message) => model.setServerTime(message.time));
  events.addEventListener("error", () => state(events.readyState === EventSource.CLOSED ? "ended" : "waiting"));
  return events;
}

/** One node in full. Throws an Error with the server's words. */
export async function readNode(name) {
  const answer = await fetch(`/api/nodes/${encodeURIComponent(name)}`);
  const said = await answer.json().catch(() => ({ error: `the server answers ${answer.status}` }));
  if (!answer.ok) throw new Error(said.error);
  return said;
}
