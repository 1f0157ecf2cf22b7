// What was typed and not sent, per conversation, in this browser.
const PREFIX = "chat-draft:";

export function readDraft(id: string): string {
  return localStorage.getItem(PREFIX + id) ?? "";
}

export function keepDraft(id: string, text: string) {
  try {
    if (text) localStorage.setItem(PREFIX + id, text);
    else forgetDraft(id);
  } catch {
    // The store of the browser is full or turned off. The text stays in the field.
  }
}

export function forgetDraft(id: string) {
  localStorage.removeItem(PREFIX + id);
}
