import { el } from "../dom.js";
export const check = () => ({ node: el("div") });
