/** The address is the state: a link restores the view. `#head/17/4;model=demo:smollm2;text=...;token=5` */

export const VIEWS = ["model", "head", "moves", "check", "compare", "claims"];
export const TITLES = { model: "Model", head: "Head", moves: "Five moves", check: "Check", compare: "Compare", claims: "Claims" };

export const DEFAULTS = {
  view: "model", layer: 0, head: 0, model: "", text: "", run: "", part: "", batch: 0, token: null, key: null, colour: "map", order: "layer", find: "", size: "S",
  scale: "sqrt", zoom: "", theme: "", h: 2, attack: "", pin: "", width: 4096, heads: 32, kv: 8, length: 8192, verdict: "all", subject: "", row: "", base: "", tuned: "", edits: "",
};
const NUMBERS = new Set(["layer", "head", "batch", "h", "width", "heads", "kv", "length"]);

/** The state that an address describes; what it leaves out has its default, and what makes no sense is left out. */
export function parse(address) {
  const [way, ...pairs] = address.replace(/^#/, "").split(";");
  const [view, layer, head] = way.split("/");
  const state = { ...DEFAULTS };
  if (VIEWS.includes(view)) state.view = view;
  for (const [name, given] of [["layer", layer], ["head", head]]) if (/^\d+$/.test(given ?? "")) state[name] = +given;
  for (const pair of pairs) {
    const cut = pair.indexOf("=");
    const [name, given] = [pair.slice(0, cut), decoded(pair.slice(cut + 1))];
    if (cut < 0 || given === null || !(name in DEFAULTS) || name === "view") continue;
    if (name === "token" || name === "key") state[name] = /^\d+$/.test(given) ? +given : null;
    else if (!NUMBERS.has(name)) state[name] = given;
    else if (/^\d+$/.test(given)) state[name] = +given;
  }
  return state;
}

/** The address of a state; what is as by default is left out. */
export function address(state) {
  const way = state.view === "model" && !state.layer && !state.head ? "model" : ["model", "head"].includes(state.view) ? `${state.view}/${state.layer}/${state.head}` : state.view;
  const kept = Object.keys(DEFAULTS).filter((name) => !["view", "layer", "head"].includes(name) && state[name] !== DEFAULTS[name] && relevant(name, state.view));
  return `#${[way, ...kept.map((name) => `${name}=${encoded(String(state[name]))}`)].join(";")}`;
}

const OWN = { headwise: true }; // an entry of the browser's history that the page made by itself: the way back to it is no new link

/** A store of the state; in a page it is bound to the address, elsewhere it lives by itself. */
export function store({ initial = "", bound = true } = {}) {
  let state = parse(bound && location.hash ? location.hash : initial);
  const listeners = new Set();
  const notify = (before, linked = false) => listeners.forEach((listener) => listener(state, before, linked));
  if (bound) history.replaceState(OWN, "");
  const onHash = () => {
    if (address(state) === location.hash) return;
    const before = state;
    // What the new address leaves open and belongs to no single view, stays: a link to another view does not change model or text.
    const given = parse(location.hash);
    state = { ...given };
    notify(before, !history.state?.headwise);
    history.replaceState(OWN, "");
  };
  if (bound) addEventListener("hashchange", onHash);
  return {
    get state() {
      return state;
    },
    /** Change some of the state. `quietly` leaves no step in the browser's history. */
    go(changes, { quietly = false } = {}) {
      const before = state;
      state = { ...state, ...changes };
      if (bound && address(state) !== location.hash) history[quietly ? "replaceState" : "pushState"](OWN, "", address(state));
      notify(before);
    },
    /** The address with some of the state changed. */
    link: (changes) => address({ ...state, ...changes }),
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      listeners.clear();
      if (bound) removeEventListener("hashchange", onHash);
    },
  };
}

// What a view has no use for is not in its address, except what chooses model and text: these hold across views.
const ONLY_IN = {
  moves: ["h", "attack", "pin", "width", "heads", "kv", "length"],
  check: ["subject", "row"],
  compare: ["base", "tuned", "verdict"],
  claims: ["verdict"],
  head: ["zoom", "scale", "key"],
  model: ["order", "size"],
};

function relevant(name, view) {
  const owners = Object.keys(ONLY_IN).filter((owner) => ONLY_IN[owner].includes(name));
  return !owners.length || owners.includes(view);
}

// Readable where it can be: blanks as underscores would be ambiguous, so only what an address or our own signs forbid is escaped.
const encoded = (text) => encodeURIComponent(text).replace(/%20/g, "+").replace(/%3A/gi, ":").replace(/%2F/gi, "/").replace(/%2C/gi, ",");

function decoded(text) {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "));
  } catch {
    return null; // a broken escape in a pasted link: that part of it is left out
  }
}
