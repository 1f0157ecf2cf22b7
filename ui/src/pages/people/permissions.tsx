import { t } from "../../i18n";

export const PERMISSIONS = ["skills.read", "skills.run", "skills.write", "approvals.resolve", "admin"] as const;
export const DEFAULT_PERMISSIONS: string[] = PERMISSIONS.filter((one) => one !== "admin");

interface Props {
  label: string;
  value: string[];
  /** The permissions that can be given. */
  options: readonly string[];
  onChange: (value: string[]) => void;
}

export function PermissionChoice({ label, value, options, onChange }: Props) {
  return (
    <fieldset class="people-choice">
      <legend>{label}</legend>
      {PERMISSIONS.filter((one) => options.includes(one)).map((one) => (
        <label key={one}>
          <input
            type="checkbox"
            checked={value.includes(one)}
            onChange={(event) =>
              onChange(event.currentTarget.checked ? [...value, one] : value.filter((other) => other !== one))
            }
          />
          <code>{one}</code> <span class="quiet">{t(`people.may_${one.replace(".", "_") as "admin"}`)}</span>
        </label>
      ))}
    </fieldset>
  );
}
