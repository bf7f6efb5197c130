// Bundles src/ and css/ into bundle.js and bundle.css. `--out DIR` writes elsewhere, for the test that compares.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const at = process.argv.indexOf("--out");
const out = at < 0 ? here(".") : process.argv[at + 1];
const shared = { bundle: true, minify: true, target: ["chrome117", "firefox121", "safari17.4"], charset: "utf8", legalComments: "none", logLevel: "warning" };
const banner = "/* headwise, Apache-2.0. Contains OpenSeadragon (BSD-3-Clause) and modules of d3 (ISC): see vendor/licences. Made by build.mjs. */";

await build({ ...shared, entryPoints: [here("src/main.js")], format: "esm", outfile: `${out}/bundle.js`, banner: { js: banner }, loader: { ".json": "json" } });
await build({ ...shared, entryPoints: [here("css/main.css")], outfile: `${out}/bundle.css`, banner: { css: banner } });
