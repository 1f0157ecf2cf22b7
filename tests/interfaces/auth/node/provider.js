// Starts a certified OpenID Connect provider on this machine, prints its issuer, and stops when stdin ends.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [clientId, clientSecret, redirectUri] = process.argv.slice(2);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    pkce: { required: () => true },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@acme.example`, email_verified: id !== "mallory", name: id }),
    }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.resume().on("end", () => process.exit());
