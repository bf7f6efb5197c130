/** Colours of numbers: ramps of even steps in OKLab, readable with any colour vision, whose zero is the paper's own colour. */

const STOPS = {
  light: { sequential: ["#f7f8ef", "#a1d8b4", "#28b3aa", "#1a8096", "#01507f", "#1b2548"], diverging: ["#62399a", "#ad9bd0", "#f4f3f4", "#d3a078", "#7f4107"] },
  dark: { sequential: ["#191e27", "#01485c", "#037674", "#1ea877", "#9cca7e", "#edeaad"], diverging: ["#c4a5fb", "#6a5a8c", "#26262a", "#8a5a3a", "#fd9c55"] },
};
const STEPS = 256;

/** Where a number from 0 to 1 stands on the ramp: as it is, its root, or its logarithm down to 1e-4. */
export const SCALES = {
  lin: (share) => share,
  sqrt: (share) => Math.sqrt(Math.max(share, 0)),
  log: (share) => Math.max(0, 1 + Math.log10(Math.max(share, 1e-4)) / 4),
};
export const SCALE_SIGNS = { lin: "lin", sqrt: "√", log: "log" };

const tables = new Map();

/** 256 colours, [r, g, b] each. */
export function table(theme, kind) {
  const key = `${theme} ${kind}`;
  if (!tables.has(key)) tables.set(key, blended(STOPS[theme][kind]));
  return tables.get(key);
}

/** The colour of a share from 0 to 1. */
export const sequential = (share, theme) => css(table(theme, "sequential")[place(share)]);

/** The colour of a share from −1 to 1. */
export const diverging = (share, theme) => css(table(theme, "diverging")[place((share + 1) / 2)]);

/** The colour, and an ink that reads on it: where black and white meet, both have a contrast of 4.58. */
export function paper(share, theme, kind = "sequential") {
  const colour = table(theme, kind)[place(kind === "diverging" ? (share + 1) / 2 : share)];
  return { background: css(colour), color: luminance(colour) > 0.179 ? "#000000" : "#ffffff" };
}

/** A table from a byte of weight (0 to 255) to a packed pixel, for painting thumbnails and tiles. */
export function pixels(theme, scale, of = (byte) => byte / 255) {
  const colours = table(theme, "sequential");
  const packed = new Uint32Array(256);
  for (let byte = 0; byte < 256; byte++) {
    const [r, g, b] = colours[place(SCALES[scale](of(byte)))];
    packed[byte] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return packed;
}

export const place = (share) => Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))));
export const css = ([r, g, b]) => `rgb(${r},${g},${b})`;

/** Relative luminance, as WCAG has it. */
export function luminance(colour) {
  const [r, g, b] = colour.map((channel) => linear(channel / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function blended(stops) {
  const labs = stops.map((stop) => oklab([1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16) / 255)));
  return Array.from({ length: STEPS }, (_, index) => {
    const along = (index / (STEPS - 1)) * (labs.length - 1);
    const below = Math.min(Math.floor(along), labs.length - 2);
    return rgb(labs[below].map((value, channel) => value + (labs[below + 1][channel] - value) * (along - below)));
  });
}

const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const gamma = (v) => (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);

/** Ottosson 2020, "A perceptual color space for image processing". */
function oklab(colour) {
  const [r, g, b] = colour.map(linear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function rgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const channels = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return channels.map((v) => Math.round(255 * Math.min(1, Math.max(0, gamma(v)))));
}
