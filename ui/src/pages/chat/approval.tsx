// A call of the turn that waits for a person.
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { ApprovalCard } from "../../parts/approval-card";
import { Shown } from "../../parts/states";

/** Show a request, and answer it. `onAnswered` is called after it was answered, here or elsewhere. */
export function ApprovalInChat({ id, onAnswered }: { id: string; onAnswered: () => unknown }) {
  const found = useLoad((signal) => ask(api.GET("/api/v1/approvals/{id}", { params: { path: { id } }, signal })), [id]);
  return <Shown of={found}>{(approval) => <ApprovalCard approval={approval} onAnswered={onAnswered} />}</Shown>;
}
