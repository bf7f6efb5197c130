/** How numbers and tokens are written. */

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A number with so many decimals; a true minus sign; "–" where there is none. Not zero stays visibly not zero. */
export function fixed(number, decimals = 3) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const least = 10 ** -decimals;
  if (number !== 0 && Math.abs(number) < least / 2) return `${number < 0 ? "−" : ""}<${least.toFixed(decimals)}`;
  return minus(number.toFixed(decimals));
}

/** 2.4·10⁻³⁶, or plain where plain is short. */
export function scientific(number, digits = 1) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (number === 0) return "0";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (Math.abs(number) >= 0.01 && Math.abs(number) < 1000) return fixed(number, 3);
  const [mantissa, exponent] = number.toExponential(digits).split("e");
  return `${minus(mantissa)}·10${raised(+exponent)}`;
}

/** About three digits, whatever the size. */
export function brief(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1000) return grouped(Math.round(number));
  return fixed(number, size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 || size === 0 ? 3 : 4);
}

/** A measured number: whole numbers as they are, what is tiny as a power of ten. */
export function amount(number) {
  if (Number.isInteger(number)) return grouped(number);
  return Math.abs(number) < 0.001 ? scientific(number) : brief(number);
}

export const percent = (share, decimals = 1) => `${fixed(100 * share, decimals)} %`;

/** 12,345. */
export const grouped = (whole) => minus(String(whole).replace(/\B(?=(\d{3})+(?!\d))/g, ","));

/** 1.2 k, 3.4 M, ... in powers of 1000. */
export function large(number) {
  const names = ["", " k", " M", " G", " T", " P", " E"];
  let step = 0;
  while (number >= 999.5 && step < names.length - 1) [number, step] = [number / 1000, step + 1];
  return `${number >= 100 || step === 0 ? Math.round(number) : number >= 10 ? number.toFixed(1) : number.toFixed(2)}${names[step]}`;
}

/** Bytes in powers of 1024. */
export function bytes(count) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let step = 0;
  while (count >= 1023.5 && step < names.length - 1) [count, step] = [count / 1024, step + 1];
  return `${count >= 100 || step === 0 ? Math.round(count) : count >= 10 ? count.toFixed(1) : count.toFixed(2)} ${names[step]}`;
}

export const minus = (text) => String(text).replace(/^-/, "−");
export const raised = (whole) => [...String(whole)].map((sign) => RAISED[sign]).join("");
export const counted = (count, one, many = `${one}s`) => `${grouped(count)} ${count === 1 ? one : many}`;
/** A model is named by the last part of its path; a hub id stays as it is. */
export const modelName = (name) => (/^[./~]/.test(name) ? name.split("/").filter(Boolean).at(-1) : name);
export const headName = (layer, head) => `L${layer} H${head}`;

/** Characters that cannot be seen, by their code points. */
const named = (text) => text.replace(/[\p{Cc}\p{Cf}]/gu, (letter) => `<U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

/** A token as a reader should see it: what cannot be seen gets a sign. */
export function shown(token) {
  const seen = named(String(token).replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/\r/g, "␍"));
  return seen.trim() === "" ? seen.replace(/ /g, "␣") || "∅" : seen;
}

/** A token in a list of single tokens: a leading blank is shown. */
export const quoted = (token) => named(String(token).replace(/\n/g, "\\n").replace(/\t/g, "\\t").replace(/ /g, "␣")) || "∅";
