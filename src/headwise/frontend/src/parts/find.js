/** `induction 18.6 L12-20 H4 kv1 sink>0.6`: words narrow down which heads are meant. */

import { measuresOf, titleOf } from "./measures.js";
import { castsOf, roleOf, rolesOf } from "./roles.js";

const OF_TEXT = ["sink", "previous", "self", "mixed"]; // what any text tells
const ALIASES = { sink: "first", share: "write_share", norm: "write_norm", cosine: "write_cosine", peak: "max_weight", largest: "max_weight", previous: "previous" };

/** {pass(layer, head), errors: [what was not understood], wanted: [roles for which heads have yet to be asked]} */
export function finder(world, told) {
  const [errors, wanted] = [[], []];
  const tests = told.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => test(world, word, errors, wanted)).filter(Boolean);
  return { pass: (layer, head) => tests.every((one) => one(layer, head)), errors, wanted };
}

function test(world, word, errors, wanted) {
  const one = /^(\d+)\.(\d+)$/.exec(word);
  if (one) return (layer, head) => layer === +one[1] && head === +one[2];
  const layers = /^l(\d+)(?:-(\d+))?$/.exec(word);
  if (layers) return (layer) => layer >= +layers[1] && layer <= +(layers[2] ?? layers[1]);
  const heads = /^h(\d+)(?:-(\d+))?$/.exec(word);
  if (heads) return (_, head) => head >= +heads[1] && head <= +(heads[2] ?? heads[1]);
  const kv = /^kv(\d+)$/.exec(word);
  if (kv) return (layer, head) => world.keyHead(layer, head) === +kv[1];
  const bound = /^([a-z_]+)([<>])=?(-?[\d.]+)$/.exec(word);
  if (bound) return bounded(world, bound, errors);
  if (word === "edited") return (layer, head) => world.scaled(layer, head) !== 1;
  return played(world, word.replace(/^role:/, "").replace(/[- ]/g, "_"), word, errors, wanted);
}

/** Heads of a role: as this text tells it, as it was tried, or yet to be tried. */
function played(world, role, word, errors, wanted) {
  if (known(world, role)) return (layer, head) => roleOf(world, layer, head).startsWith(role);
  const cast = castsOf(world).find((one) => one.name.startsWith(role));
  if (cast) return (layer, head) => Boolean(cast.role[layer]?.[head]);
  const one = world.playable.find(({ name }) => name.startsWith(role));
  if (one) wanted.push(one.name);
  else errors.push(`“${word}” is no role, layer, head, kv or measure. These are: ${[...OF_TEXT, ...world.playable.map(({ name }) => name).filter((name) => !OF_TEXT.includes(name))].join(", ")}, 1.3, L1-2, H3, kv1, entropy<1. Other roles need texts of their own: headwise roles MODEL --role NAME`);
  return () => false;
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
  const names = [...OF_TEXT, ...(rolesOf(world)?.roles.flatMap((one) => [one.name, one.role]) ?? [])];
  return names.some((name) => name.startsWith(role));
}
