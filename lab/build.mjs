// Bundle one entry with esbuild: node build.mjs ENTRY OUT [META]. Called by tools/build_lab.py, which says what it is for.
// A file of src/thin/ stands in the place of a package (d3-geo.js) or of a file of Plot (plot/marks/tip.js).
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const [entry, outfile, meta] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const thin = join(here, "src", "thin");
const plot = join("@observablehq", "plot", "src");

/** The thin file in the place of what is asked for, if there is one. */
function stand({ path, importer }) {
  if (!path.startsWith(".")) return join(thin, `${path}.js`);
  const [, inside] = join(dirname(importer), path).split(plot);
  return inside === undefined ? "" : join(thin, "plot", inside);
}

const thinner = {
  name: "thin",
  setup({ onResolve }) {
    onResolve({ filter: /^(\.|d3-)/ }, (asked) => {
      const path = stand(asked);
      return path !== "" && existsSync(path) ? { path } : undefined;
    });
  },
};

const { metafile } = await build({
  entryPoints: [entry], outfile, absWorkingDir: here, bundle: true, minify: true, metafile: true, plugins: [thinner], format: "iife",
  charset: "utf8", legalComments: "none", logLevel: "warning", target: ["chrome109", "firefox115", "safari16.4"],
});
if (meta) writeFileSync(meta, JSON.stringify(metafile));
