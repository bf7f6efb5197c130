/** The list of edits: undo, redo, save as a checkpoint. The server holds them, the address repeats them. */

import { el, fill, focusedData } from "../dom.js";
import { bytes, headName } from "../format.js";
import { sign } from "../marks.js";
import { failureNote } from "./notes.js";

export const CANNOT_WRITE = "To edit, open the address that the terminal printed.";
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;

export function editList(app) {
  const { client } = app;
  const node = el("div", { class: "section edits" });
  const draw = () => {
    const held = client.edits;
    const list = held?.edits ?? [];
    const rows = list.map((edit) =>
      el(
        "li",
        {},
        el("button", { class: "plain", type: "button", on: { click: () => app.go({ view: "head", layer: edit.layer, head: edit.head, part: edit.part === client.run.parts[0].name ? "" : edit.part }) } }, el("b", {}, headName(edit.layer, edit.head)), edit.scale === 0 ? " ablated" : ` × ${edit.scale.toFixed(2)}`),
        el("button", { class: "plain away", type: "button", "aria-label": `take away the edit of ${headName(edit.layer, edit.head)}`, on: { click: () => client.edit("DELETE", "", null, { part: edit.part, layer: edit.layer, head: edit.head }) } }, sign("fails")),
      ),
    );
    const button = (title, way, on, primary = "") => el("button", { class: `button ${primary}`, type: "button", disabled: !on, data: { way }, on: { click: () => (way === "save" ? ask() : client.edit("POST", `/${way}`, {})) } }, title);
    const focused = focusedData(node).way;
    const none = client.mayWrite ? "Move the slider or ablate a head to make one." : `${app.state.edits ? "The address names edits, which are not made here. " : ""}${CANNOT_WRITE}`;
    fill(
      node,
      el("h2", { class: "heading" }, "Edits", el("span", { class: "sub" }, list.length ? String(list.length) : "none")),
      list.length ? el("ul", {}, rows) : el("p", { class: "sub" }, none),
      el("div", { class: "buttons" }, button("Undo", "undo", held?.undo), button("Redo", "redo", held?.redo), client.can("save") ? button("Save as checkpoint", "save", list.length, "primary") : null),
      client.errors.has("edits") ? failureNote(client.errors.get("edits")) : null,
      client.saved ? savedNote(app) : list.length ? willChange(held) : null,
      client.naming && list.length ? form() : null,
    );
    if (focused) node.querySelector(`[data-way="${focused}"]:not([disabled])`)?.focus();
  };

  /** Ask for the name of the checkpoint. */
  const ask = () => {
    client.saved = null;
    client.naming = { name: `${client.run.model}-edited`.replace(/[^\w.-]/g, "-") };
    draw();
    const field = node.querySelector(".save input");
    field.focus();
    field.select();
  };

  const form = () => {
    const { naming } = client;
    if (naming.busy) return el("p", { class: "waiting", role: "status" }, el("i", { class: "spinner" }), "Writing the checkpoint…");
    const name = el("input", { class: "field", value: naming.name, "aria-label": "name of the checkpoint", "aria-invalid": naming.refused ? "true" : null, data: { way: "name" }, on: { input: () => (naming.name = name.value) } });
    const submit = (event) => {
      event.preventDefault();
      save(client);
    };
    return el("form", { class: "bar save", novalidate: true, on: { submit } }, name, el("button", { class: "button primary", type: "submit" }, "Save"), naming.refused ? failureNote({ message: naming.refused }) : null);
  };

  draw();
  return { node, draw };
}

async function save(client) {
  const { naming, run } = client;
  const { name } = naming;
  client.saved = null;
  client.errors.delete("edits");
  naming.refused = NAME.test(name) ? null : `name must be letters, digits, “.”, “_” and “-”, at most 64, and begin with none of “.” and “-”, got “${name}”. Choose another.`;
  if (!naming.refused) {
    naming.busy = true;
    client.notify("edits");
    try {
      const saved = await client.ask("POST", `/api/edits/${run.model}/save`, { session: client.session, name });
      if (client.run === run) Object.assign(client, { saved, naming: null });
    } catch (failure) {
      naming.refused = failure.message;
    }
    naming.busy = false;
  }
  client.notify("edits");
}

function willChange({ tensors, of_tensors: all }) {
  const named = tensors.slice(0, 2).flatMap((name, at) => [at ? ", " : "", el("code", {}, name)]);
  return el("p", { class: "note" }, `Will rewrite ${tensors.length} of ${all} tensors (`, named, tensors.length > 2 ? ` and ${tensors.length - 2} more` : "", "). All others stay byte-identical.");
}

/** Where it was saved, and what can be done with it. */
function savedNote(app) {
  const { client } = app;
  const { saved } = client;
  const base = client.run.model;
  const button = (title, changes) => el("button", { class: "button small", type: "button", on: { click: () => app.go(changes) } }, title);
  return el(
    "div",
    { class: "note", role: "status" },
    el("b", {}, "Saved to "),
    el("code", {}, saved.path),
    `. ${saved.changed.length} of ${saved.of_tensors} tensors differ, ${bytes(saved.bytes)}. Any tool that reads safetensors loads it.`,
    el("div", { class: "buttons" }, button("Open", { model: saved.model }), client.can("compare") ? button("Compare", { view: "compare", base, tuned: saved.model, row: "" }) : null),
  );
}
