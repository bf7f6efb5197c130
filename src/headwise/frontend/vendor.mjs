// Copies what the page needs of other people's work into vendor/, with licences and hashes. Run after changing a version: npm ci && npm run vendor
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";

const here = (path) => new URL(path, import.meta.url);
const D3 = `export { scaleLinear, scaleLog } from "d3-scale";\nexport { area, curveBumpX, line, link } from "d3-shape";\n`;
const D3_PACKAGES = ["d3-scale", "d3-shape", "d3-path", "d3-array", "d3-interpolate", "d3-color", "d3-format", "d3-time", "d3-time-format", "internmap"];

await mkdir(here("vendor/licences"), { recursive: true });
const lock = JSON.parse(await readFile(here("package-lock.json"), "utf8")).packages;
await copyFile(here("node_modules/openseadragon/build/openseadragon/openseadragon.min.js"), here("vendor/openseadragon.cjs"));
await build({ stdin: { contents: D3, resolveDir: here(".").pathname }, bundle: true, format: "esm", treeShaking: true, outfile: here("vendor/d3.js").pathname, legalComments: "inline", charset: "utf8" });

const record = {};
for (const [file, names] of Object.entries({ "openseadragon.cjs": ["openseadragon"], "d3.js": D3_PACKAGES })) {
  const packages = [];
  for (const name of names) {
    const { version, license, integrity } = lock[`node_modules/${name}`];
    const licence = `licences/${name}.txt`;
    await copyFile(here(`node_modules/${name}/${name === "openseadragon" ? "LICENSE.txt" : "LICENSE"}`), here(`vendor/${licence}`));
    packages.push({ name, version, license, licence, integrity });
  }
  const sha256 = createHash("sha256").update(await readFile(here(`vendor/${file}`))).digest("hex");
  record[file] = { sha256, packages };
}
await writeFile(here("vendor/vendored.json"), `${JSON.stringify(record, null, 2)}\n`);
