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

const signIn = async (code) => {
  show("Signing in …", "", "working");
  try {
    const answer = await fetch("/api/v1/sign-in", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (answer.ok) {
      const me = await fetch("/api/v1/me").then((found) => (found.ok ? found.json() : {}));
      const name = me.name ? ` as ${me.name}${me.organization_id ? ` of ${me.organization_id}` : ""}` : "";
      show(`You are signed in${name}.`, "", "done");
      document.getElementById("next").hidden = false;
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

const code = location.hash.slice(1);
if (code) {
  // The code must not stay in the address, where the history would keep it.
  history.replaceState(null, "", location.pathname);
  signIn(decodeURIComponent(code));
}
