// The files of a skill, folder by folder, with the text of the one that is chosen.
import { useState } from "preact/hooks";
import { api, ask, Problem, problemOf, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { bytes } from "../../format";
import { t } from "../../i18n";
import { Shown } from "../../parts/states";
import { parameters } from "./data";

type File = Shapes["FileShape"];
const LONGEST = 200_000;

export function Files({ address, digest }: { address: string; digest: string }) {
  const found = useLoad(
    (signal) => ask(api.GET("/api/v1/skills/{id}/files", { params: parameters(address), signal })),
    [address, digest],
  );
  const [chosen, setChosen] = useState("SKILL.md");
  return (
    <Shown of={found}>
      {({ files }) => {
        const file = files.find((one) => one.path === chosen) ?? files[0];
        return (
          <div class="skill-files">
            <nav aria-label={t("skill.tab_files")}>
              {folders(files).map(([folder, inside]) => (
                <div key={folder}>
                  {folder && <p class="skill-folder">{folder}/</p>}
                  <ul>
                    {inside.map((one) => (
                      <li key={one.path}>
                        <button
                          type="button"
                          aria-current={one === file ? "true" : undefined}
                          onClick={() => setChosen(one.path)}
                        >
                          <span>{one.path.slice(folder ? folder.length + 1 : 0)}</span>
                          <span class="quiet">{bytes(one.size)}</span>
                        </button>
                      </li>
                    ))}
                  </ul>
                </div>
              ))}
            </nav>
            {file && <Content key={`${file.path} ${file.sha256}`} address={address} file={file} />}
          </div>
        );
      }}
    </Shown>
  );
}

/** Return the files by folder, those of no folder first. */
function folders(files: File[]): [string, File[]][] {
  const found = new Map<string, File[]>();
  for (const file of files) {
    const folder = file.path.slice(0, Math.max(0, file.path.lastIndexOf("/")));
    found.set(folder, [...(found.get(folder) ?? []), file]);
  }
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1));
}

function Content({ address, file }: { address: string; file: File }) {
  const [isWhole, setWhole] = useState(false);
  const path = file.path.split("/").map(encodeURIComponent).join("/");
  const url = `/api/v1/skills/${encodeURIComponent(address)}/files/${path}`;
  const found = useLoad((signal) => readText(url, signal), [url]);
  return (
    <section class="skill-file" aria-label={file.path}>
      <header>
        <code>{file.path}</code>
        <span class="quiet">
          {bytes(file.size)} · {file.mode}
        </span>
        <a href={url} download target="_self">
          {t("skill.download")}
        </a>
      </header>
      <Shown of={found}>
        {({ text }) =>
          text === null ? (
            <p class="quiet">{t("skill.not_text")}</p>
          ) : (
            <>
              <pre tabIndex={0}>{isWhole ? text : text.slice(0, LONGEST)}</pre>
              {!isWhole && text.length > LONGEST && (
                <button type="button" class="button" onClick={() => setWhole(true)}>
                  {t("skill.show_all")}
                </button>
              )}
            </>
          )
        }
      </Shown>
    </section>
  );
}

/** Return the text of a file, or null if it is not text. */
async function readText(url: string, signal: AbortSignal): Promise<{ text: string | null }> {
  const response = await fetch(url, { signal }).catch((error: unknown) => {
    throw signal.aborted ? error : new Problem(0, "offline", "");
  });
  if (!response.ok) throw problemOf(response.status, await response.json().catch(() => undefined));
  const isText = response.headers.get("content-type")?.startsWith("text/") ?? false;
  if (isText) return { text: await response.text() };
  await response.body?.cancel();
  return { text: null };
}
