// Who answers: the model, and the role that limits what the agent may use.
import { useEffect, useId, useState } from "preact/hooks";
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { t } from "../../i18n";

const STORED = "chat-models";
const KEPT = 8;

function usedModels(): string[] {
  return (localStorage.getItem(STORED) ?? "").split("\n").filter(Boolean);
}

/** Offer a model again later. */
export function rememberModel(name: string) {
  if (!name) return;
  localStorage.setItem(STORED, [name, ...usedModels().filter((one) => one !== name)].slice(0, KEPT).join("\n"));
}

interface ModelProps {
  value: string;
  /** Called when the person has finished typing. */
  onChange: (model: string) => unknown;
}

export function ModelChoice({ value, onChange }: ModelProps) {
  const [text, setText] = useState(value);
  const list = useId();
  useEffect(() => setText(value), [value]);
  const done = () => {
    const chosen = text.trim();
    if (chosen !== value) onChange(chosen);
  };
  return (
    <label class="chat-choice">
      <span>{t("chat.model")}</span>
      <input
        list={list}
        value={text}
        placeholder={t("chat.default_model")}
        title={t("chat.model_hint")}
        autocomplete="off"
        spellcheck={false}
        maxLength={500}
        onInput={(event) => setText(event.currentTarget.value)}
        onBlur={done}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          done();
        }}
      />
      <datalist id={list}>
        {usedModels().map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}

export function RoleChoice({ value, onChange }: { value: string; onChange: (role: string) => void }) {
  const roles = useLoad((signal) => ask(api.GET("/api/v1/roles", { params: { query: { limit: 200 } }, signal })), []);
  const chosen = roles.data?.items.find((one) => one.name === value);
  return (
    <label class="chat-choice">
      <span>{t("chat.role")}</span>
      <select
        value={value}
        title={chosen?.description ?? t("chat.role_hint")}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        <option value="">{t("chat.no_role")}</option>
        {roles.data?.items.map((one) => (
          <option key={one.name} value={one.name}>
            {one.name}
          </option>
        ))}
      </select>
    </label>
  );
}
