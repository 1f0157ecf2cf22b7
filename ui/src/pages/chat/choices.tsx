// Who answers: the model, and the role that limits what the agent may use.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { t } from "../../i18n";

/** The value of the entry for a name that is not in the list. */
const OTHER = "…";

/** A model in a file, by the name of the file alone. */
const shortName = (model: string) => model.replace(/:.*\//, ":");

interface ModelProps {
  value: string;
  /** Keep a name. Return false if it is refused. */
  onChange: (model: string) => unknown;
}

export function ModelChoice({ value, onChange }: ModelProps) {
  const models = useLoad((signal) => ask(api.GET("/api/v1/models", { signal })), []);
  const id = useId();
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [typed === undefined]);
  const items = models.data?.items ?? [];
  const others = items.filter((one) => !one.is_default);
  const usual = items.find((one) => one.is_default)?.name;
  const done = async () => {
    const chosen = typed?.trim();
    // What was typed stays while it is refused.
    if (!chosen || chosen === value || (await onChange(chosen)) !== false) setTyped(undefined);
  };
  return (
    <label class="chat-choice" for={id}>
      <span>{t("chat.model")}</span>
      {typed === undefined ? (
        <select
          id={id}
          value={value}
          onChange={async (event) => {
            const select = event.currentTarget;
            if (select.value === OTHER) setTyped(value);
            else if ((await onChange(select.value)) === false) select.value = value;
          }}
        >
          <option value="">{usual ? t("chat.default_is", { name: shortName(usual) }) : t("chat.default_model")}</option>
          {others.map((one) => (
            <option key={one.name} value={one.name} disabled={one.needs !== ""} title={one.needs}>
              {shortName(one.name)}
            </option>
          ))}
          {value && !others.some((one) => one.name === value) && <option value={value}>{shortName(value)}</option>}
          <option value={OTHER}>{t("chat.other_model")}</option>
        </select>
      ) : (
        <input
          id={id}
          ref={field}
          value={typed}
          placeholder="openai:gpt-5"
          title={t("chat.model_hint")}
          autocomplete="off"
          spellcheck={false}
          maxLength={200}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onBlur={done}
          onKeyDown={(event) => {
            if (event.key === "Escape") setTyped(undefined);
            if (event.key !== "Enter") return;
            event.preventDefault();
            void done();
          }}
        />
      )}
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
