/** Edits as an address holds them: `ablate:18.6,scale:3.2:0.5`; of another part than the first `scale:decoder.cross/1.2:0.5`. */

const ONE = /^(?:ablate|silence|scale):(?:(.+)\/)?(\d+)\.(\d+)(?::(\d*\.?\d+))?$/;

/** @param first the part that is meant where none is named */
export const formatEdits = (edits, first) => edits.map(({ part, layer, head, scale }) => `${scale === 0 ? "ablate" : "scale"}:${part === first ? "" : `${part}/`}${layer}.${head}${scale === 0 ? "" : `:${scale}`}`).join(",");

/** The edits in an address; what makes no sense is left out. */
export function parseEdits(given, first) {
  return given.split(",").flatMap((word) => {
    const [all, part, layer, head, scale] = ONE.exec(word) ?? [];
    if (!all || all.startsWith("scale") !== (scale !== undefined)) return [];
    return [{ part: part ?? first, layer: +layer, head: +head, scale: +(scale ?? 0) }];
  });
}
