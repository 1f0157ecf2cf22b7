// What all pages share: who is signed in, and the theme.
import { signal } from "@preact/signals";
import { api, ask, isSignedOut, type Shapes } from "./api/client";

export const me = signal<Shapes["MeShape"] | undefined>(undefined);

const OWNER = "owner";
const OF_EVERYONE = ["theme", "language"];

/** Ask the server who this browser belongs to. */
export async function loadMe() {
  try {
    me.value = await ask(api.GET("/api/v1/me"));
    isSignedOut.value = false;
  } catch {
    // Signed out, or the server does not answer: both are shown.
    return;
  }
  const { organization_id, user_id, name } = me.value;
  const owner = JSON.stringify([organization_id, user_id, name]);
  if (localStorage.getItem(OWNER) === owner) return;
  // Drafts of somebody who used this browser before are not shown to this person.
  forget();
  localStorage.setItem(OWNER, owner);
}

/** Remove everything that was kept in this browser for one person. */
function forget() {
  for (const key of Object.keys(localStorage)) if (!OF_EVERYONE.includes(key)) localStorage.removeItem(key);
  sessionStorage.clear();
}

/** Return True if the person may do this. The server decides; a page only hides what would be refused. */
export function may(permission: string): boolean {
  return me.value?.permissions.includes(permission) ?? false;
}

/** End the session of this browser. All its tabs then show how to sign in. */
export async function signOut() {
  await ask(api.POST("/api/v1/sign-out"));
  forget();
  isSignedOut.value = true;
}

export type Theme = "auto" | "light" | "dark";
export const theme = signal<Theme>((localStorage.getItem("theme") as Theme | null) ?? "auto");

export function chooseTheme(chosen: Theme) {
  theme.value = chosen;
  localStorage.setItem("theme", chosen);
  applyTheme();
}

export function applyTheme() {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}
applyTheme();
