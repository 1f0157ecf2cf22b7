// What all pages share: who is signed in, and the theme.
import { signal } from "@preact/signals";
import { api, ask, isSignedOut, type Shapes } from "./api/client";

export const me = signal<Shapes["MeShape"] | undefined>(undefined);

/** Ask the server who this browser belongs to. */
export async function loadMe() {
  try {
    me.value = await ask(api.GET("/api/v1/me"));
    isSignedOut.value = false;
  } catch {
    // Signed out, or the server does not answer: both are shown.
  }
}

/** Return True if the person may do this. The server decides; a page only hides what would be refused. */
export function may(permission: string): boolean {
  return me.value?.permissions.includes(permission) ?? false;
}

/** End the session of this browser. All its tabs then show how to sign in. */
export async function signOut() {
  await ask(api.POST("/api/v1/sign-out"));
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
