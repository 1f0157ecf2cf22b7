// Tokens of the HTTP API. The secret of a new one is shown once.
import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { usePages } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Choice, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { asProblem, Empty, More, ProblemBox, Shown } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt, say } from "../../parts/toast";
import { may, me } from "../../state";
import { PermissionChoice } from "./permissions";

type Token = Shapes["TokenShape"];

const TONES = { active: "good", expired: "plain", revoked: "plain" } as const;

export function Tokens() {
  const [whose, setWhose] = useState<"own" | "all">("own");
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<Shapes["NewTokenShape"]>();
  const [revoked, setRevoked] = useState<Token>();
  const tokens = usePages(
    (page, signal) =>
      ask(api.GET("/api/v1/tokens", { params: { query: { ...page, everyone: whose === "all" } }, signal })),
    [whose],
  );
  const revoke = async (one: Token) => {
    if (!(await attempt(ask(api.DELETE("/api/v1/tokens/{id}", { params: { path: { id: one.id } } }))))) return;
    say(t("people.said_revoked", { name: one.name || one.id }));
    setRevoked(undefined);
    tokens.reload();
  };
  return (
    <>
      <div class="toolbar">
        {may("admin") && (
          <Choice
            label={t("people.whose")}
            value={whose}
            options={[
              { value: "own", label: t("people.own") },
              { value: "all", label: t("people.everyone") },
            ]}
            onChange={setWhose}
          />
        )}
        <Button look="primary" onClick={() => setMaking(true)}>
          <Icon name="plus" />
          {t("people.new_token")}
        </Button>
      </div>
      <Shown of={tokens}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title={t("people.tokens_none")}>
              <p>{t("people.tokens_none_text")}</p>
            </Empty>
          ) : (
            <Table
              label={t("people.tokens")}
              heads={[
                t("people.name"),
                t("people.state"),
                t("people.permissions"),
                t("people.expires"),
                t("people.last_used"),
              ]}
              action={t("people.action")}
            >
              {[...items].sort(byState).map((one) => (
                <tr key={one.id} class={one.state === "active" ? undefined : "people-gone"}>
                  <td>
                    <strong>{one.name || one.id}</strong>
                    <br />
                    <span class="quiet">
                      {one.kind === "agent" ? t("people.of_agent") : t("people.of_person")}
                      {one.user_id && ` · ${one.user_id}`}
                    </span>
                  </td>
                  <td>
                    <Badge tone={TONES[one.state]}>{t(`people.token_${one.state}`)}</Badge>
                  </td>
                  <td class="people-scopes">{one.scopes.join(", ")}</td>
                  <td data-label={t("people.expires")}>
                    {one.expires_at ? (
                      <time title={moment(one.expires_at)}>{ago(one.expires_at)}</time>
                    ) : (
                      t("people.never")
                    )}
                  </td>
                  <td data-label={t("people.last_used")}>{one.last_used_at ? ago(one.last_used_at) : "–"}</td>
                  <td class="number">
                    {one.state === "active" && (
                      <Button look="danger" onClick={() => setRevoked(one)}>
                        {t("people.revoke")}
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
      <More of={tokens} />
      {isMaking && (
        <NewToken
          onClose={() => setMaking(false)}
          onMade={(token) => {
            setMaking(false);
            setMade(token);
            tokens.reload();
          }}
        />
      )}
      {made && <Secret token={made} onClose={() => setMade(undefined)} />}
      {revoked && (
        <Dialog
          title={t("people.revoke_title", { name: revoked.name || revoked.id })}
          onClose={() => setRevoked(undefined)}
          answer={{ text: t("people.revoke"), look: "danger", onClick: () => revoke(revoked) }}
        >
          <p>{t("people.revoke_text")}</p>
        </Dialog>
      )}
    </>
  );
}

function byState(one: Token, other: Token): number {
  const rank = (token: Token) => (token.state === "active" ? 0 : 1);
  return rank(one) - rank(other) || other.created_at.localeCompare(one.created_at);
}

const AGENT_PERMISSIONS = ["skills.read", "skills.run", "skills.write"];

function NewToken({ onClose, onMade }: { onClose: () => void; onMade: (token: Shapes["NewTokenShape"]) => void }) {
  const mine = me.value?.permissions ?? [];
  const [name, setName] = useState("");
  const [kind, setKind] = useState<"person" | "agent">("agent");
  const [days, setDays] = useState("90");
  const options = kind === "agent" ? mine.filter((one) => AGENT_PERMISSIONS.includes(one)) : mine;
  const [scopes, setScopes] = useState<string[]>(mine.filter((one) => one !== "admin"));
  const [problem, setProblem] = useState<Problem>();
  const create = async () => {
    setProblem(undefined);
    const body = {
      name,
      agent: kind === "agent" ? name.trim() || "agent" : "",
      scopes: scopes.filter((one) => options.includes(one)),
      expires_days: Number(days),
      user_id: "",
    };
    try {
      onMade(await ask(api.POST("/api/v1/tokens", { body })));
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Dialog
      title={t("people.new_token")}
      onClose={onClose}
      answer={{ text: t("people.create"), look: "primary", onClick: create }}
    >
      {problem && <ProblemBox problem={problem} />}
      <Field label={t("people.name")} hint={t("people.name_hint")}>
        {(ids) => (
          <input {...ids} value={name} maxLength={100} onInput={(event) => setName(event.currentTarget.value)} />
        )}
      </Field>
      <Choice
        label={t("people.kind")}
        value={kind}
        options={[
          { value: "agent", label: t("people.for_agent") },
          { value: "person", label: t("people.for_person") },
        ]}
        onChange={setKind}
      />
      <p class="quiet">{t(kind === "agent" ? "people.for_agent_text" : "people.for_person_text")}</p>
      <PermissionChoice label={t("people.permissions")} value={scopes} options={options} onChange={setScopes} />
      <Field label={t("people.days")}>
        {(ids) => (
          <select {...ids} value={days} onChange={(event) => setDays(event.currentTarget.value)}>
            {["7", "30", "90", "365"].map((one) => (
              <option key={one} value={one}>
                {t("people.days_count", { count: Number(one) })}
              </option>
            ))}
          </select>
        )}
      </Field>
    </Dialog>
  );
}

function Secret({ token, onClose }: { token: Shapes["NewTokenShape"]; onClose: () => void }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(token.token);
    setCopied(true);
  };
  return (
    <Dialog
      title={t("people.secret_title")}
      onClose={onClose}
      actions={
        <>
          {/* A browser gives pages the clipboard only on HTTPS and on this machine. */}
          {navigator.clipboard && (
            <Button look="primary" onClick={() => attempt(copy())}>
              <Icon name="copy" />
              {t(isCopied ? "people.copied" : "people.copy")}
            </Button>
          )}
          <Button onClick={onClose}>{t("people.done")}</Button>
        </>
      }
    >
      <p>{t("people.secret_text")}</p>
      <pre class="people-secret" tabIndex={0}>
        {token.token}
      </pre>
      <p class="quiet">{t("people.secret_use")}</p>
    </Dialog>
  );
}
