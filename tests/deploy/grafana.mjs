// Reads dashboards as JSON, {types: package, dashboards: {name: dashboard}}, and writes what Grafana's own types have
// against them: [[name, sentence], ...].
// They are those that Grafana publishes as @grafana/schema, made from the schemas that its server and its panels share.
// Run in a folder that has the packages: node --input-type=module --eval "$(cat grafana.mjs)"
import { createRequire } from "node:module";
import path from "node:path";

const ts = createRequire(path.join(process.cwd(), "package.json"))("typescript");
const KINDS = { timeseries: "TimeSeries", stat: "Stat" };

// JSON has the values of enums and not their names; a name of a field that there is not stays a fault.
const head = (types) => `import type { Dashboard, FieldConfig, Panel, RowPanel } from "${types}";
import type * as TimeSeries from "${types}/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
import type * as Stat from "${types}/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
type Plain<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Plain<U>[]
  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
`;

function source(types, dashboard) {
  const { panels, ...rest } = dashboard;
  const lines = [head(types), `const dashboard: Plain<Dashboard> = ${JSON.stringify(rest)};`];
  panels.forEach((panel, place) => {
    if (panel.type === "row") {
      lines.push(`const row${place}: Plain<RowPanel> = ${JSON.stringify(panel)};`);
      return;
    }
    const kind = KINDS[panel.type];
    if (kind === undefined) throw new Error(`no types for a panel of type ${panel.type}`);
    const custom = panel.fieldConfig.defaults.custom;
    lines.push(`const panel${place}: Plain<Panel> = ${JSON.stringify(panel)};`);
    lines.push(`const defaults${place}: Plain<FieldConfig> = ${JSON.stringify(panel.fieldConfig.defaults)};`);
    lines.push(`const options${place}: Plain<${kind}.Options> = ${JSON.stringify(panel.options)};`);
    if (custom !== undefined) lines.push(`const custom${place}: Plain<${kind}.FieldConfig> = ${JSON.stringify(custom)};`);
  });
  return lines.join("\n");
}

let text = "";
for await (const piece of process.stdin) text += piece;
const { types, dashboards } = JSON.parse(text);
const texts = new Map(
  Object.entries(dashboards).map(([name, dashboard]) => [path.join(process.cwd(), `${name}.ts`), source(types, dashboard)]),
);
const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  // Up to 11 the package does not say that its panels' types may be imported.
  paths: types === "@grafana/schema" ? {} : { [`${types}/*`]: [path.join(process.cwd(), "node_modules", types, "*")] },
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
};
const host = ts.createCompilerHost(options);
const { fileExists, readFile, getSourceFile } = host;
host.fileExists = (name) => texts.has(name) || fileExists(name);
host.readFile = (name) => texts.get(name) ?? readFile(name);
host.getSourceFile = (name, ...more) =>
  texts.has(name) ? ts.createSourceFile(name, texts.get(name), options.target) : getSourceFile(name, ...more);
const program = ts.createProgram([...texts.keys()], options, host);
const found = ts.getPreEmitDiagnostics(program).map((fault) => [
  fault.file ? path.basename(fault.file.fileName, ".ts") : "",
  ts.flattenDiagnosticMessageText(fault.messageText, " "),
]);
console.log(JSON.stringify(found));
