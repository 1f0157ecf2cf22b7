// Sign in with the code after `#`. Browsers do not send that part to a server, so it is in no log.
"use strict";

// Commands are between backquotes.
const write = (id, text) => {
  const pieces = text.split("`").map((piece, number) => {
    if (number % 2 === 0) return piece;
    const code = document.createElement("code");
    code.textContent = piece;
    return code;
  });
  document.getElementById(id).replaceChildren(...pieces);
};

const show = (status, hint, state) => {
  write("status", status);
  write("hint", hint);
  document.body.dataset.state = state;
};

// Who this browser is signed in as; '' for nobody.
const readName = async () => {
  const answer = await fetch("/api/v1/me");
  const me = answer.ok ? await answer.json() : {};
  return me.name ? `${me.name}${me.organization_id ? ` of ${me.organization_id}` : ""}` : "";
};

const signIn = async (code) => {
  show("Signing in …", "", "working");
  try {
    const before = await readName();
    const answer = await fetch("/api/v1/sign-in", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (answer.ok) {
      const name = await readName();
      show(`You are signed in${name ? ` as ${name}` : ""}.`, "", "done");
      document.getElementById("next").hidden = false;
      // Anybody can send a link to their own account, and would see what is done in it.
      if (before && before !== name) {
        write("hint", `Before, you were signed in as ${before}. If you did not expect that, open a link of your own.`);
        return;
      }
      // Not into the history: going back would show a link that has been used.
      location.replace("/");
      return;
    }
    const problem = await answer.json().catch(() => ({}));
    show(problem.detail || `The server answered ${answer.status}.`, problem.hint || "Try again with a new link.", "failed");
  } catch {
    show("The server does not answer.", "Check that `prowess serve` is running, and reload this page.", "failed");
  }
};

const openLink = () => {
  const code = location.hash.slice(1);
  if (!code) return;
  // The code must not stay in the address, where the history would keep it.
  history.replaceState(null, "", location.pathname);
  signIn(decodeURIComponent(code));
};

// A second link in the same tab changes nothing but the part after `#`.
addEventListener("hashchange", openLink);
openLink();
