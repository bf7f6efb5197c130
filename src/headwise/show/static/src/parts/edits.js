/** The list of edits: undo, redo, save as a checkpoint. The server holds them. */

import { el, fill } from "../dom.js";
import { bytes, headName } from "../format.js";
import { sign } from "../marks.js";
import { failureNote } from "./note.js";

export const CANNOT_WRITE = "To edit, open the address that the terminal printed.";

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
    const button = (title, way, on, primary = "") => el("button", { class: `button ${primary}`, type: "button", disabled: !on, data: { way }, on: { click: () => (way === "save" ? save(app, node) : world.edit("POST", `/${way}`, {})) } }, title);
    const focused = node.contains(document.activeElement) ? document.activeElement.dataset.way : null;
    fill(
      node,
      el("h2", { class: "heading" }, "Edits", el("span", { class: "sub" }, list.length ? String(list.length) : "none")),
      list.length ? el("ul", {}, rows) : el("p", { class: "sub" }, world.mayWrite ? "Move the slider, or silence a head, to make one." : CANNOT_WRITE),
      el("div", { class: "buttons" }, button("Undo", "undo", held?.undo), button("Redo", "redo", held?.redo), world.can("save") ? button("Save as checkpoint", "save", list.length, "primary") : null),
      world.errors.has("edits") ? failureNote(world.errors.get("edits")) : null,
      world.saved ? savedNote(world.saved) : list.length ? willChange(held) : null,
    );
    if (focused) node.querySelector(`[data-way="${focused}"]:not([disabled])`)?.focus();
  };
  draw();
  return { node, draw };
}

function willChange({ tensors, of_tensors: all }) {
  const named = tensors.slice(0, 2).flatMap((name, at) => [at ? ", " : "", el("code", {}, name)]);
  return el("p", { class: "note" }, `Will rewrite ${tensors.length} of ${all} tensors (`, named, tensors.length > 2 ? ` and ${tensors.length - 2} more` : "", "). All others stay byte-identical.");
}

function savedNote(saved) {
  return el("p", { class: "note", role: "status" }, el("b", {}, "Saved to "), el("code", {}, saved.path), `. ${saved.changed.length} of ${saved.of_tensors} tensors differ, ${bytes(saved.bytes)}. Any tool that reads safetensors loads it.`);
}

function save(app, node) {
  const { world } = app;
  const suggestion = `${world.run.model}-edited`.replace(/[^\w.-]/g, "-");
  const name = el("input", { class: "field", value: suggestion, "aria-label": "name of the checkpoint", pattern: "[A-Za-z0-9._\\-]+", required: true });
  const form = el(
    "form",
    { class: "bar save", on: { submit: async (event) => {
      event.preventDefault();
      fill(form, el("p", { class: "waiting", role: "status" }, el("i", { class: "spinner" }), "writing the checkpoint"));
      try {
        world.saved = await world.ask("POST", `/api/edits/${world.run.model}/save`, { session: world.session, name: name.value });
        world.errors.delete("edits");
      } catch (failure) {
        world.errors.set("edits", failure);
      }
      world.tell("edits");
    } } },
    name,
    el("button", { class: "button primary", type: "submit" }, "Save"),
  );
  node.append(form);
  name.focus();
  name.select();
}
