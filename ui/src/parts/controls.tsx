// Buttons, fields and choices.
import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface ButtonProps extends Omit<JSX.IntrinsicElements["button"], "onClick" | "type"> {
  look?: "primary" | "danger" | "plain" | "normal";
  /** Work that the click starts. The button is busy until it ends. */
  onClick?: (event: MouseEvent) => unknown;
  type?: "button" | "submit";
  children: ComponentChildren;
}

/** A button. While a promise of its click is running, it cannot be clicked again, but keeps the focus. */
export function Button({ look = "normal", onClick, type = "button", children, disabled, ...rest }: ButtonProps) {
  const [isBusy, setBusy] = useState(false);
  const click = async (event: MouseEvent) => {
    if (isBusy) return event.preventDefault();
    const work = onClick?.(event);
    if (!(work instanceof Promise)) return;
    setBusy(true);
    try {
      await work;
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      {...rest}
      type={type}
      class={`button ${look}`}
      disabled={disabled}
      aria-disabled={isBusy || undefined}
      aria-busy={isBusy}
      onClick={click}
    >
      {children}
    </button>
  );
}

interface FieldProps {
  label: string;
  /** What to write here, below the field. */
  hint?: ComponentChildren;
  problem?: string;
  children: (ids: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ComponentChildren;
}

/** A field with its label, its hint and its problem: `<Field label="Name">{(ids) => <input {...ids} />}</Field>`. */
export function Field({ label, hint, problem, children }: FieldProps) {
  const id = useId();
  const about = hint || problem ? `${id}-about` : undefined;
  return (
    <div class={problem ? "field invalid" : "field"}>
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": about, "aria-invalid": problem ? true : undefined })}
      {about && (
        <p id={about} class="about">
          {problem || hint}
        </p>
      )}
    </div>
  );
}

/** A field for a number that is not negative. */
export function NumberField(props: { label: string; hint?: string; value: string; onInput: (value: string) => void }) {
  return (
    <Field label={props.label} hint={props.hint}>
      {(ids) => (
        <input
          {...ids}
          type="number"
          min={0}
          step="any"
          value={props.value}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: { value: T; label: string; count?: number }[];
  onChange: (value: T) => void;
  disabled?: boolean;
}

/** A few choices side by side, one of them chosen: my, org, system. */
export function Choice<T extends string>({ label, value, options, onChange, disabled }: ChoiceProps<T>) {
  const name = useId();
  return (
    <fieldset class="choice" disabled={disabled}>
      <legend class="hidden-text">{label}</legend>
      {options.map((option) => (
        <label key={option.value} class={option.value === value ? "chosen" : undefined}>
          <input
            type="radio"
            name={name}
            class="hidden-text"
            checked={option.value === value}
            onChange={() => onChange(option.value)}
          />
          {option.label}
          {option.count !== undefined && <span class="quiet"> {option.count}</span>}
        </label>
      ))}
    </fieldset>
  );
}

interface TabsProps<T extends string> extends ChoiceProps<T> {
  children: ComponentChildren;
}

/** Tabs with the panel of the chosen one below. Arrow keys move between them. */
export function Tabs<T extends string>({ label, value, options, onChange, children }: TabsProps<T>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    // On a phone, the tab that an address names may be beyond the edge.
    const chosen = list.current?.querySelector("[aria-selected=true]");
    if (!list.current || !chosen) return;
    const beyond = chosen.getBoundingClientRect().right - list.current.getBoundingClientRect().right;
    if (beyond > 0) list.current.scrollLeft += beyond;
  }, [value]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (options.findIndex((one) => one.value === value) + step + options.length) % options.length;
    onChange((options[next] as { value: T }).value);
    (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <>
      <div ref={list} class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {options.map((option) => (
          <button
            key={option.value}
            type="button"
            role="tab"
            id={`${id}-${option.value}`}
            aria-selected={option.value === value}
            aria-controls={`${id}-panel`}
            tabIndex={option.value === value ? 0 : -1}
            onClick={() => onChange(option.value)}
          >
            {option.label}
            {option.count !== undefined && <span class="count quiet">{option.count}</span>}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${value}`} class="tab-panel">
        {children}
      </div>
    </>
  );
}

interface SearchProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
}

export function Search({ label, value, onInput }: SearchProps) {
  return (
    <input
      type="search"
      class="search"
      aria-label={label}
      placeholder={label}
      value={value}
      autocomplete="off"
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}
