/** `induction L12-20 H4 kv1 sink>0.6`: words narrow down which heads are meant. */

import { measuresOf, titleOf } from "./measures.js";
import { roleOf, rolesOf } from "./roles.js";

const ALIASES = { sink: "first", share: "write_share", norm: "write_norm", cosine: "write_cosine", peak: "max_weight", largest: "max_weight", previous: "previous" };

/** {pass(layer, head), errors: [what was not understood]} */
export function finder(world, told) {
  const errors = [];
  const tests = told.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => test(world, word, errors)).filter(Boolean);
  return { pass: (layer, head) => tests.every((one) => one(layer, head)), errors };
}

function test(world, word, errors) {
  const layers = /^l(\d+)(?:-(\d+))?$/.exec(word);
  if (layers) return (layer) => layer >= +layers[1] && layer <= +(layers[2] ?? layers[1]);
  const heads = /^h(\d+)(?:-(\d+))?$/.exec(word);
  if (heads) return (_, head) => head >= +heads[1] && head <= +(heads[2] ?? heads[1]);
  const kv = /^kv(\d+)$/.exec(word);
  if (kv) return (layer, head) => world.keyHead(layer, head) === +kv[1];
  const bound = /^([a-z_]+)([<>])=?(-?[\d.]+)$/.exec(word);
  if (bound) return bounded(world, bound, errors);
  if (word === "edited") return (layer, head) => world.scaled(layer, head) !== 1;
  const role = word.replace(/^role:/, "");
  if (!known(world, role)) errors.push(`“${word}” is no role, layer, head, kv or measure`);
  return (layer, head) => roleOf(world, layer, head).startsWith(role);
}

function bounded(world, [, told, relation, number], errors) {
  const names = measuresOf(world).map((one) => one.name);
  const name = names.find((one) => one === told && !(told in ALIASES)) ?? (names.includes(ALIASES[told]) ? ALIASES[told] : names.find((one) => one.startsWith(told) || titleOf(one).startsWith(told)));
  if (!name) {
    errors.push(`“${told}” is no measure: ${names.join(", ")}`);
    return () => false;
  }
  return relation === ">" ? (layer, head) => world.at(name, layer, head) > +number : (layer, head) => world.at(name, layer, head) < +number;
}

function known(world, role) {
  const names = ["sink", "previous", "self", "mixed", ...(rolesOf(world)?.roles.flatMap((one) => [one.name, one.role]) ?? [])];
  return names.some((name) => name.startsWith(role));
}
