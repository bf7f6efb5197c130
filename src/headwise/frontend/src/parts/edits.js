/** The list of edits: undo, redo, save as a checkpoint. The server holds them, the address repeats them. */

import { el, fill } from "../dom.js";
import { bytes, headName } from "../format.js";
import { sign } from "../marks.js";
import { failureNote } from "./note.js";

export const CANNOT_WRITE = "To edit, open the address that the terminal printed.";
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;

export function editList(app) {
  const { world } = app;
  const node = el("div", { class: "section edits" });
  const draw = () => {
    const held = world.edits;
    const list = held?.edits ?? [];
    const rows = list.map((edit) =>
      el(
        "li",
        {},
        el("button", { class: "plain", type: "button", on: { click: () => app.go({ view: "head", layer: edit.layer, head: edit.head, part: edit.part === world.run.parts[0].name ? "" : edit.part }) } }, el("b", {}, headName(edit.layer, edit.head)), edit.scale === 0 ? " silenced" : ` × ${edit.scale.toFixed(2)}`),
        el("button", { class: "plain away", type: "button", "aria-label": `take away the edit of ${headName(edit.layer, edit.head)}`, on: { click: () => world.edit("DELETE", "", null, { part: edit.part, layer: edit.layer, head: edit.head }) } }, sign("fails")),
      ),
    );
    const button = (title, way, on, primary = "") => el("button", { class: `button ${primary}`, type: "button", disabled: !on, data: { way }, on: { click: () => (way === "save" ? ask() : world.edit("POST", `/${way}`, {})) } }, title);
    const focused = node.contains(document.activeElement) ? document.activeElement.dataset.way : null;
    const none = world.mayWrite ? "Move the slider, or silence a head, to make one." : `${app.state.edits ? "The address names edits, which are not made here. " : ""}${CANNOT_WRITE}`;
    fill(
      node,
      el("h2", { class: "heading" }, "Edits", el("span", { class: "sub" }, list.length ? String(list.length) : "none")),
      list.length ? el("ul", {}, rows) : el("p", { class: "sub" }, none),
      el("div", { class: "buttons" }, button("Undo", "undo", held?.undo), button("Redo", "redo", held?.redo), world.can("save") ? button("Save as checkpoint", "save", list.length, "primary") : null),
      world.errors.has("edits") ? failureNote(world.errors.get("edits")) : null,
      world.saved ? savedNote(app) : list.length ? willChange(held) : null,
      world.naming && list.length ? form() : null,
    );
    if (focused) node.querySelector(`[data-way="${focused}"]:not([disabled])`)?.focus();
  };

  /** Ask for the name of the checkpoint. */
  const ask = () => {
    world.saved = null;
    world.naming = { name: `${world.run.model}-edited`.replace(/[^\w.-]/g, "-") };
    draw();
    const field = node.querySelector(".save input");
    field.focus();
    field.select();
  };

  const form = () => {
    const { naming } = world;
    if (naming.busy) return el("p", { class: "waiting", role: "status" }, el("i", { class: "spinner" }), "writing the checkpoint");
    const name = el("input", { class: "field", value: naming.name, "aria-label": "name of the checkpoint", "aria-invalid": naming.refused ? "true" : null, data: { way: "name" }, on: { input: () => (naming.name = name.value) } });
    const submit = (event) => {
      event.preventDefault();
      save(world);
    };
    return el("form", { class: "bar save", novalidate: true, on: { submit } }, name, el("button", { class: "button primary", type: "submit" }, "Save"), naming.refused ? failureNote({ message: naming.refused }) : null);
  };

  draw();
  return { node, draw };
}

async function save(world) {
  const { naming, run } = world;
  const { name } = naming;
  world.saved = null;
  world.errors.delete("edits");
  naming.refused = NAME.test(name) ? null : `name must be letters, digits, “.”, “_” and “-”, at most 64, and begin with none of “.” and “-”, got “${name}”. Choose another.`;
  if (!naming.refused) {
    naming.busy = true;
    world.tell("edits");
    try {
      const saved = await world.ask("POST", `/api/edits/${run.model}/save`, { session: world.session, name });
      if (world.run === run) Object.assign(world, { saved, naming: null });
    } catch (failure) {
      naming.refused = failure.message;
    }
    naming.busy = false;
  }
  world.tell("edits");
}

function willChange({ tensors, of_tensors: all }) {
  const named = tensors.slice(0, 2).flatMap((name, at) => [at ? ", " : "", el("code", {}, name)]);
  return el("p", { class: "note" }, `Will rewrite ${tensors.length} of ${all} tensors (`, named, tensors.length > 2 ? ` and ${tensors.length - 2} more` : "", "). All others stay byte-identical.");
}

/** Where it was saved, and what can be done with it. */
function savedNote(app) {
  const { world } = app;
  const { saved } = world;
  const base = world.run.model;
  const button = (title, changes) => el("button", { class: "button small", type: "button", on: { click: () => app.go(changes) } }, title);
  return el(
    "div",
    { class: "note", role: "status" },
    el("b", {}, "Saved to "),
    el("code", {}, saved.path),
    `. ${saved.changed.length} of ${saved.of_tensors} tensors differ, ${bytes(saved.bytes)}. Any tool that reads safetensors loads it.`,
    el("div", { class: "buttons" }, button("Open", { model: saved.model }), world.can("compare") ? button("Compare", { view: "compare", base, tuned: saved.model, row: "" }) : null),
  );
}
