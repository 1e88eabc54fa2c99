// Reads manifests as JSON, and writes what the schema of each one's kind has against it: [[place, sentence], ...].
// Run in a folder that has the packages, for names are resolved from there: node --input-type=module --eval "$(cat schemas.mjs)"
const PACKAGES = {
  "external-secrets.io": "@kubernetes-models/external-secrets",
  "gateway.networking.k8s.io": "@kubernetes-models/gateway-api",
  "karpenter.k8s.aws": "@kubernetes-models/karpenter",
  "karpenter.sh": "@kubernetes-models/karpenter",
  "keda.sh": "@kubernetes-models/keda",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
};

async function fault(manifest) {
  const [group, version] = manifest.apiVersion.split("/");
  if (!(group in PACKAGES)) return `no schema for ${manifest.apiVersion}`;
  const kinds = await import(`${PACKAGES[group]}/${group}/${version}`);
  if (!(manifest.kind in kinds)) return `no schema for ${manifest.apiVersion} ${manifest.kind}`;
  try {
    new kinds[manifest.kind](manifest).validate();
    return null;
  } catch (error) {
    return error.message;
  }
}

let text = "";
for await (const piece of process.stdin) text += piece;
const found = [];
for (const manifest of JSON.parse(text)) {
  const said = await fault(manifest);
  if (said !== null) found.push([`${manifest.kind} ${manifest.metadata.name}`, said]);
}
console.log(JSON.stringify(found));
