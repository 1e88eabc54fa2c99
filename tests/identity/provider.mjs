// An OpenID provider for tests. `node provider.mjs settings.json`, where the settings are those of provider.py.
import { readFileSync } from 'node:fs';

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const now = Date.now;
Date.now = () => now() + settings.clock_ahead_s * 1000; // before the provider is loaded

const { Provider } = await import('oidc-provider');
const issuer = `http://127.0.0.1:${settings.port}`;

const provider = new Provider(issuer, {
  clients: settings.clients,
  jwks: { keys: settings.keys },
  cookies: { keys: ['for tests'] },
  pkce: { required: () => true },
  ttl: { AccessToken: settings.lifetime_s, ClientCredentials: settings.lifetime_s, IdToken: settings.lifetime_s },
  claims: { openid: ['sub'], profile: ['groups', 'sid'] },
  conformIdTokenClaims: false, // groups in the ID token, as Okta and Entra have them
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: settings.groups[id] ?? [] }) }),
  extraTokenClaims: (_, token) => {
    const who = token.accountId ?? token.clientId;
    return { groups: settings.groups[who] ?? [], ...(token.sessionUid ? { sid: token.sessionUid } : {}) };
  },
  // The operator trusts the clients, so nobody is asked for consent.
  loadExistingGrant: async (ctx) => {
    const { oidc } = ctx;
    const known = oidc.result?.consent?.grantId ?? oidc.session.grantIdFor(oidc.client.clientId);
    if (known) return oidc.provider.Grant.find(known);
    const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
    grant.addOIDCScope('openid profile offline_access');
    grant.addResourceScope(settings.audience, 'use');
    await grant.save();
    return grant;
  },
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    rpInitiatedLogout: { enabled: true },
    backchannelLogout: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => settings.audience,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'use',
        audience: settings.audience,
        accessTokenTTL: settings.lifetime_s,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: settings.keys[0].alg } },
      }),
    },
  },
});

provider.listen(settings.port, '127.0.0.1', () => process.stdout.write(`ready: ${issuer}\n`));
